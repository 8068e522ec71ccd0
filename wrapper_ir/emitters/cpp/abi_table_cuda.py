"""The functions of PyTorch's C shim that generated code calls on CUDA.

Written by tools/make_cpp_abi.py. For each op the C function and its parameters, valid
for every PyTorch since 2.11.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CUDA_SHIMS"]

CUDA_SHIMS: Final[dict[str, tuple[str, str]]] = {
    "aten::_adaptive_avg_pool2d": (
        "aoti_torch_cuda__adaptive_avg_pool2d",
        (
            "AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::_adaptive_avg_pool2d_backward": (
        "aoti_torch_cuda__adaptive_avg_pool2d_backward",
        "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::_adaptive_avg_pool3d": (
        "aoti_torch_cuda__adaptive_avg_pool3d",
        (
            "AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::_adaptive_avg_pool3d_backward": (
        "aoti_torch_cuda__adaptive_avg_pool3d_backward",
        "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::_addmm_activation": (
        "aoti_torch_cuda__addmm_activation",
        (
            "AtenTensorHandle self, AtenTensorHandle mat1, AtenTensorHandle mat2, double "
            "beta, double alpha, int32_t use_gelu, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_cdist_backward": (
        "aoti_torch_cuda__cdist_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle x1, AtenTensorHandle x2, double "
            "p, AtenTensorHandle cdist, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_cdist_forward": (
        "aoti_torch_cuda__cdist_forward",
        (
            "AtenTensorHandle x1, AtenTensorHandle x2, double p, int64_t* compute_mode, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::_cudnn_rnn": (
        "aoti_torch_cuda__cudnn_rnn",
        (
            "AtenTensorHandle input, const AtenTensorHandle* weight, int64_t weight_len_, "
            "int64_t weight_stride0, AtenTensorHandle* weight_buf, AtenTensorHandle hx, "
            "AtenTensorHandle* cx, int64_t mode, int64_t hidden_size, int64_t proj_size, "
            "int64_t num_layers, int32_t batch_first, double dropout, int32_t train, int32_t "
            "bidirectional, const int64_t* batch_sizes, int64_t batch_sizes_len_, "
            "AtenTensorHandle* dropout_state, AtenTensorHandle* ret0, AtenTensorHandle* ret1, "
            "AtenTensorHandle* ret2, AtenTensorHandle* ret3, AtenTensorHandle* ret4"
        ),
    ),
    "aten::_efficient_attention_backward": (
        "aoti_torch_cuda__efficient_attention_backward",
        (
            "AtenTensorHandle grad_out_, AtenTensorHandle query, AtenTensorHandle key, "
            "AtenTensorHandle value, AtenTensorHandle* bias, AtenTensorHandle out, "
            "AtenTensorHandle* cu_seqlens_q, AtenTensorHandle* cu_seqlens_k, int64_t "
            "max_seqlen_q, int64_t max_seqlen_k, AtenTensorHandle logsumexp, double "
            "dropout_p, AtenTensorHandle philox_seed, AtenTensorHandle philox_offset, int64_t "
            "custom_mask_type, int32_t bias_requires_grad, double* scale, int64_t* "
            "num_splits_key, int64_t* window_size, int32_t shared_storage_dqdkdv, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, "
            "AtenTensorHandle* ret3"
        ),
    ),
    "aten::_efficient_attention_forward": (
        "aoti_torch_cuda__efficient_attention_forward",
        (
            "AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value, "
            "AtenTensorHandle* bias, AtenTensorHandle* cu_seqlens_q, AtenTensorHandle* "
            "cu_seqlens_k, int64_t* max_seqlen_q, int64_t* max_seqlen_k, double dropout_p, "
            "int64_t custom_mask_type, int32_t compute_log_sumexp, double* scale, "
            "AtenTensorHandle* seqlen_k, int64_t* window_size, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1, AtenTensorHandle* ret2, AtenTensorHandle* ret3, int64_t* "
            "ret4, int64_t* ret5"
        ),
    ),
    "aten::_embedding_bag": (
        "aoti_torch_cuda__embedding_bag",
        (
            "AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets, "
            "int32_t scale_grad_by_freq, int64_t mode, int32_t sparse, AtenTensorHandle* "
            "per_sample_weights, int32_t include_last_offset, int64_t padding_idx, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, "
            "AtenTensorHandle* ret3"
        ),
    ),
    "aten::_embedding_bag_dense_backward": (
        "aoti_torch_cuda__embedding_bag_dense_backward",
        (
            "AtenTensorHandle grad, AtenTensorHandle indices, AtenTensorHandle offset2bag, "
            "AtenTensorHandle bag_size, AtenTensorHandle maximum_indices, int64_t "
            "num_weights, int32_t scale_grad_by_freq, int64_t mode, AtenTensorHandle* "
            "per_sample_weights, int64_t padding_idx, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_embedding_bag_forward_only": (
        "aoti_torch_cuda__embedding_bag_forward_only",
        (
            "AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets, "
            "int32_t scale_grad_by_freq, int64_t mode, int32_t sparse, AtenTensorHandle* "
            "per_sample_weights, int32_t include_last_offset, int64_t padding_idx, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, "
            "AtenTensorHandle* ret3"
        ),
    ),
    "aten::_embedding_bag_per_sample_weights_backward": (
        "aoti_torch_cuda__embedding_bag_per_sample_weights_backward",
        (
            "AtenTensorHandle grad, AtenTensorHandle weight, AtenTensorHandle indices, "
            "AtenTensorHandle offsets, AtenTensorHandle offset2bag, int64_t mode, int64_t "
            "padding_idx, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_fft_c2c": (
        "aoti_torch_cuda__fft_c2c",
        (
            "AtenTensorHandle self, const int64_t* dim, int64_t dim_len_, int64_t "
            "normalization, int32_t forward, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_fft_r2c": (
        "aoti_torch_cuda__fft_r2c",
        (
            "AtenTensorHandle self, const int64_t* dim, int64_t dim_len_, int64_t "
            "normalization, int32_t onesided, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_flash_attention_backward": (
        "aoti_torch_cuda__flash_attention_backward",
        (
            "AtenTensorHandle grad_out, AtenTensorHandle query, AtenTensorHandle key, "
            "AtenTensorHandle value, AtenTensorHandle out, AtenTensorHandle logsumexp, "
            "AtenTensorHandle cum_seq_q, AtenTensorHandle cum_seq_k, int64_t max_q, int64_t "
            "max_k, double dropout_p, int32_t is_causal, AtenTensorHandle rng_state, "
            "AtenTensorHandle unused, double* scale, int64_t* window_size_left, int64_t* "
            "window_size_right, AtenTensorHandle* ret0, AtenTensorHandle* ret1, "
            "AtenTensorHandle* ret2"
        ),
    ),
    "aten::_flash_attention_forward.quantized": (
        "aoti_torch_cuda__flash_attention_forward_quantized",
        (
            "AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value, "
            "AtenTensorHandle* cum_seq_q, AtenTensorHandle* cum_seq_k, int64_t max_q, int64_t "
            "max_k, double dropout_p, int32_t is_causal, int32_t return_debug_mask, "
            "AtenTensorHandle* q_descale, AtenTensorHandle* k_descale, AtenTensorHandle* "
            "v_descale, double* scale, int64_t* window_size_left, int64_t* window_size_right, "
            "AtenTensorHandle* seqused_k, AtenTensorHandle* alibi_slopes, AtenTensorHandle* "
            "ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, AtenTensorHandle* ret3, "
            "AtenTensorHandle* ret4"
        ),
    ),
    "aten::_fused_moving_avg_obs_fq_helper": (
        "aoti_torch_cuda__fused_moving_avg_obs_fq_helper",
        (
            "AtenTensorHandle self, AtenTensorHandle observer_on, AtenTensorHandle "
            "fake_quant_on, AtenTensorHandle running_min, AtenTensorHandle running_max, "
            "AtenTensorHandle scale, AtenTensorHandle zero_point, double averaging_const, "
            "int64_t quant_min, int64_t quant_max, int64_t ch_axis, int32_t "
            "per_row_fake_quant, int32_t symmetric_quant, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1"
        ),
    ),
    "aten::_fused_moving_avg_obs_fq_helper_functional": (
        "aoti_torch_cuda__fused_moving_avg_obs_fq_helper_functional",
        (
            "AtenTensorHandle self, AtenTensorHandle observer_on, AtenTensorHandle "
            "fake_quant_on, AtenTensorHandle running_min, AtenTensorHandle running_max, "
            "AtenTensorHandle scale, AtenTensorHandle zero_point, double averaging_const, "
            "int64_t quant_min, int64_t quant_max, int64_t ch_axis, int32_t "
            "per_row_fake_quant, int32_t symmetric_quant, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1, AtenTensorHandle* ret2, AtenTensorHandle* ret3, "
            "AtenTensorHandle* ret4, AtenTensorHandle* ret5"
        ),
    ),
    "aten::_fused_rms_norm": (
        "aoti_torch_cuda__fused_rms_norm",
        (
            "AtenTensorHandle input, const int64_t* normalized_shape, int64_t "
            "normalized_shape_len_, AtenTensorHandle* weight, double* eps, AtenTensorHandle* "
            "ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::_int_mm.out": (
        "aoti_torch_cuda__int_mm_out",
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2",
    ),
    "aten::_pdist_backward": (
        "aoti_torch_cuda__pdist_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, double p, AtenTensorHandle "
            "pdist, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_pdist_forward": (
        "aoti_torch_cuda__pdist_forward",
        "AtenTensorHandle self, double p, AtenTensorHandle* ret0",
    ),
    "aten::_scaled_dot_product_cudnn_attention": (
        "aoti_torch_cuda__scaled_dot_product_cudnn_attention",
        (
            "AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value, "
            "AtenTensorHandle* attn_bias, int32_t compute_log_sumexp, double dropout_p, "
            "int32_t is_causal, int32_t return_debug_mask, double* scale, AtenTensorHandle* "
            "ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, AtenTensorHandle* ret3, "
            "int64_t* ret4, int64_t* ret5, AtenTensorHandle* ret6, AtenTensorHandle* ret7, "
            "AtenTensorHandle* ret8"
        ),
    ),
    "aten::_scaled_dot_product_cudnn_attention_backward": (
        "aoti_torch_cuda__scaled_dot_product_cudnn_attention_backward",
        (
            "AtenTensorHandle grad_out, AtenTensorHandle query, AtenTensorHandle key, "
            "AtenTensorHandle value, AtenTensorHandle out, AtenTensorHandle logsumexp, "
            "AtenTensorHandle philox_seed, AtenTensorHandle philox_offset, AtenTensorHandle "
            "attn_bias, AtenTensorHandle cum_seq_q, AtenTensorHandle cum_seq_k, int64_t "
            "max_q, int64_t max_k, double dropout_p, int32_t is_causal, double* scale, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2"
        ),
    ),
    "aten::_scaled_dot_product_efficient_attention": (
        "aoti_torch_cuda__scaled_dot_product_efficient_attention",
        (
            "AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value, "
            "AtenTensorHandle* attn_bias, int32_t compute_log_sumexp, double dropout_p, "
            "int32_t is_causal, double* scale, AtenTensorHandle* ret0, AtenTensorHandle* "
            "ret1, AtenTensorHandle* ret2, AtenTensorHandle* ret3"
        ),
    ),
    "aten::_scaled_dot_product_flash_attention": (
        "aoti_torch_cuda__scaled_dot_product_flash_attention",
        (
            "AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value, double "
            "dropout_p, int32_t is_causal, int32_t return_debug_mask, double* scale, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, "
            "AtenTensorHandle* ret3, int64_t* ret4, int64_t* ret5, AtenTensorHandle* ret6, "
            "AtenTensorHandle* ret7, AtenTensorHandle* ret8"
        ),
    ),
    "aten::_scaled_dot_product_flash_attention_backward": (
        "aoti_torch_cuda__scaled_dot_product_flash_attention_backward",
        (
            "AtenTensorHandle grad_out, AtenTensorHandle query, AtenTensorHandle key, "
            "AtenTensorHandle value, AtenTensorHandle out, AtenTensorHandle logsumexp, "
            "AtenTensorHandle cum_seq_q, AtenTensorHandle cum_seq_k, int64_t max_q, int64_t "
            "max_k, double dropout_p, int32_t is_causal, AtenTensorHandle philox_seed, "
            "AtenTensorHandle philox_offset, double* scale, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1, AtenTensorHandle* ret2"
        ),
    ),
    "aten::_scaled_dot_product_flash_attention.quantized": (
        "aoti_torch_cuda__scaled_dot_product_flash_attention_quantized",
        (
            "AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value, "
            "AtenTensorHandle* q_descale, AtenTensorHandle* k_descale, AtenTensorHandle* "
            "v_descale, double dropout_p, int32_t is_causal, int32_t return_debug_mask, "
            "double* scale, AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* "
            "ret2, AtenTensorHandle* ret3, int64_t* ret4, int64_t* ret5, AtenTensorHandle* "
            "ret6, AtenTensorHandle* ret7, AtenTensorHandle* ret8"
        ),
    ),
    "aten::_scaled_dot_product_fused_attention_overrideable": (
        "aoti_torch_cuda__scaled_dot_product_fused_attention_overrideable",
        (
            "AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value, "
            "AtenTensorHandle* attn_bias, double dropout_p, int32_t is_causal, int32_t "
            "return_debug_mask, double* scale, AtenTensorHandle* ret0, AtenTensorHandle* "
            "ret1, AtenTensorHandle* ret2, AtenTensorHandle* ret3, int64_t* ret4, int64_t* "
            "ret5, AtenTensorHandle* ret6, AtenTensorHandle* ret7, AtenTensorHandle* ret8"
        ),
    ),
    "aten::_scaled_grouped_mm": (
        "aoti_torch_cuda__scaled_grouped_mm",
        (
            "AtenTensorHandle self, AtenTensorHandle mat2, AtenTensorHandle scale_a, "
            "AtenTensorHandle scale_b, AtenTensorHandle* offs, AtenTensorHandle* bias, "
            "AtenTensorHandle* scale_result, int32_t* out_dtype, int32_t use_fast_accum, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::_scaled_mm": (
        "aoti_torch_cuda__scaled_mm",
        (
            "AtenTensorHandle self, AtenTensorHandle mat2, AtenTensorHandle scale_a, "
            "AtenTensorHandle scale_b, AtenTensorHandle* bias, AtenTensorHandle* "
            "scale_result, int32_t* out_dtype, int32_t use_fast_accum, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_scaled_mm.out": (
        "aoti_torch_cuda__scaled_mm_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2, "
            "AtenTensorHandle scale_a, AtenTensorHandle scale_b, AtenTensorHandle* bias, "
            "AtenTensorHandle* scale_result, int32_t* out_dtype, int32_t use_fast_accum"
        ),
    ),
    "aten::_segment_reduce_backward": (
        "aoti_torch_cuda__segment_reduce_backward",
        (
            "AtenTensorHandle grad, AtenTensorHandle output, AtenTensorHandle data, const "
            "char* reduce, AtenTensorHandle* lengths, AtenTensorHandle* offsets, int64_t "
            "axis, double* initial, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_thnn_fused_lstm_cell": (
        "aoti_torch_cuda__thnn_fused_lstm_cell",
        (
            "AtenTensorHandle input_gates, AtenTensorHandle hidden_gates, AtenTensorHandle "
            "cx, AtenTensorHandle* input_bias, AtenTensorHandle* hidden_bias, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2"
        ),
    ),
    "aten::_trilinear": (
        "aoti_torch_cuda__trilinear",
        (
            "AtenTensorHandle i1, AtenTensorHandle i2, AtenTensorHandle i3, const int64_t* "
            "expand1, int64_t expand1_len_, const int64_t* expand2, int64_t expand2_len_, "
            "const int64_t* expand3, int64_t expand3_len_, const int64_t* sumdim, int64_t "
            "sumdim_len_, int64_t unroll_dim, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_weight_int4pack_mm": (
        "aoti_torch_cuda__weight_int4pack_mm",
        (
            "AtenTensorHandle self, AtenTensorHandle mat2, int64_t qGroupSize, "
            "AtenTensorHandle qScaleAndZeros, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_weight_int8pack_mm": (
        "aoti_torch_cuda__weight_int8pack_mm",
        (
            "AtenTensorHandle self, AtenTensorHandle mat2, AtenTensorHandle scales, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::abs": (
        "aoti_torch_cuda_abs",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::adaptive_max_pool2d": (
        "aoti_torch_cuda_adaptive_max_pool2d",
        (
            "AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::adaptive_max_pool2d_backward": (
        "aoti_torch_cuda_adaptive_max_pool2d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle indices, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::adaptive_max_pool3d": (
        "aoti_torch_cuda_adaptive_max_pool3d",
        (
            "AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::adaptive_max_pool3d_backward": (
        "aoti_torch_cuda_adaptive_max_pool3d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle indices, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::add.Scalar": (
        "aoti_torch_cuda_add_Scalar",
        "AtenTensorHandle self, double other, double alpha, AtenTensorHandle* ret0",
    ),
    "aten::add.Tensor": (
        "aoti_torch_cuda_add_Tensor",
        ("AtenTensorHandle self, AtenTensorHandle other, double alpha, AtenTensorHandle* " "ret0"),
    ),
    "aten::addbmm": (
        "aoti_torch_cuda_addbmm",
        (
            "AtenTensorHandle self, AtenTensorHandle batch1, AtenTensorHandle batch2, double "
            "beta, double alpha, AtenTensorHandle* ret0"
        ),
    ),
    "aten::addmm.out": (
        "aoti_torch_cuda_addmm_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1, "
            "AtenTensorHandle mat2, double beta, double alpha"
        ),
    ),
    "aten::addmv": (
        "aoti_torch_cuda_addmv",
        (
            "AtenTensorHandle self, AtenTensorHandle mat, AtenTensorHandle vec, double beta, "
            "double alpha, AtenTensorHandle* ret0"
        ),
    ),
    "aten::angle": (
        "aoti_torch_cuda_angle",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::avg_pool2d": (
        "aoti_torch_cuda_avg_pool2d",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, int32_t ceil_mode, int32_t count_include_pad, int64_t* "
            "divisor_override, AtenTensorHandle* ret0"
        ),
    ),
    "aten::avg_pool2d_backward": (
        "aoti_torch_cuda_avg_pool2d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, int32_t ceil_mode, int32_t "
            "count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret0"
        ),
    ),
    "aten::avg_pool3d": (
        "aoti_torch_cuda_avg_pool3d",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, int32_t ceil_mode, int32_t count_include_pad, int64_t* "
            "divisor_override, AtenTensorHandle* ret0"
        ),
    ),
    "aten::avg_pool3d_backward": (
        "aoti_torch_cuda_avg_pool3d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, int32_t ceil_mode, int32_t "
            "count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret0"
        ),
    ),
    "aten::baddbmm.out": (
        "aoti_torch_cuda_baddbmm_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle batch1, "
            "AtenTensorHandle batch2, double beta, double alpha"
        ),
    ),
    "aten::bmm.out": (
        "aoti_torch_cuda_bmm_out",
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2",
    ),
    "aten::bucketize.Tensor": (
        "aoti_torch_cuda_bucketize_Tensor",
        (
            "AtenTensorHandle self, AtenTensorHandle boundaries, int32_t out_int32, int32_t "
            "right, AtenTensorHandle* ret0"
        ),
    ),
    "aten::cat": (
        "aoti_torch_cuda_cat",
        (
            "const AtenTensorHandle* tensors, int64_t tensors_len_, int64_t dim, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::cholesky_inverse": (
        "aoti_torch_cuda_cholesky_inverse",
        "AtenTensorHandle self, int32_t upper, AtenTensorHandle* ret0",
    ),
    "aten::cholesky_solve": (
        "aoti_torch_cuda_cholesky_solve",
        (
            "AtenTensorHandle self, AtenTensorHandle input2, int32_t upper, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::convolution": (
        "aoti_torch_cuda_convolution",
        (
            "AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const "
            "int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, const int64_t* dilation, int64_t dilation_len_, int32_t "
            "transposed, const int64_t* output_padding, int64_t output_padding_len_, int64_t "
            "groups, AtenTensorHandle* ret0"
        ),
    ),
    "aten::cummax": (
        "aoti_torch_cuda_cummax",
        ("AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret0, AtenTensorHandle* " "ret1"),
    ),
    "aten::cummin": (
        "aoti_torch_cuda_cummin",
        ("AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret0, AtenTensorHandle* " "ret1"),
    ),
    "aten::cumprod": (
        "aoti_torch_cuda_cumprod",
        "AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret0",
    ),
    "aten::cumsum": (
        "aoti_torch_cuda_cumsum",
        "AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret0",
    ),
    "aten::fill_.Scalar": (
        "aoti_torch_cuda_fill__Scalar",
        "AtenTensorHandle self, double value",
    ),
    "aten::fractional_max_pool2d": (
        "aoti_torch_cuda_fractional_max_pool2d",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* output_size, int64_t output_size_len_, AtenTensorHandle "
            "random_samples, AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::fractional_max_pool2d_backward": (
        "aoti_torch_cuda_fractional_max_pool2d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle indices, AtenTensorHandle* ret0"
        ),
    ),
    "aten::fractional_max_pool3d": (
        "aoti_torch_cuda_fractional_max_pool3d",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* output_size, int64_t output_size_len_, AtenTensorHandle "
            "random_samples, AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::fractional_max_pool3d_backward": (
        "aoti_torch_cuda_fractional_max_pool3d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle indices, AtenTensorHandle* ret0"
        ),
    ),
    "aten::gcd": (
        "aoti_torch_cuda_gcd",
        "AtenTensorHandle self, AtenTensorHandle other, AtenTensorHandle* ret0",
    ),
    "aten::geqrf": (
        "aoti_torch_cuda_geqrf",
        "AtenTensorHandle self, AtenTensorHandle* ret0, AtenTensorHandle* ret1",
    ),
    "aten::histc": (
        "aoti_torch_cuda_histc",
        ("AtenTensorHandle self, int64_t bins, double min, double max, AtenTensorHandle* " "ret0"),
    ),
    "aten::index_reduce": (
        "aoti_torch_cuda_index_reduce",
        (
            "AtenTensorHandle self, int64_t dim, AtenTensorHandle index, AtenTensorHandle "
            "source, const char* reduce, int32_t include_self, AtenTensorHandle* ret0"
        ),
    ),
    "aten::kthvalue": (
        "aoti_torch_cuda_kthvalue",
        (
            "AtenTensorHandle self, int64_t k, int64_t dim, int32_t keepdim, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::logcumsumexp": (
        "aoti_torch_cuda_logcumsumexp",
        "AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret0",
    ),
    "aten::lu_unpack": (
        "aoti_torch_cuda_lu_unpack",
        (
            "AtenTensorHandle LU_data, AtenTensorHandle LU_pivots, int32_t unpack_data, "
            "int32_t unpack_pivots, AtenTensorHandle* ret0, AtenTensorHandle* ret1, "
            "AtenTensorHandle* ret2"
        ),
    ),
    "aten::masked_scatter": (
        "aoti_torch_cuda_masked_scatter",
        (
            "AtenTensorHandle self, AtenTensorHandle mask, AtenTensorHandle source, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::masked_scatter_backward": (
        "aoti_torch_cuda_masked_scatter_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle mask, const int64_t* sizes, "
            "int64_t sizes_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::masked_select": (
        "aoti_torch_cuda_masked_select",
        "AtenTensorHandle self, AtenTensorHandle mask, AtenTensorHandle* ret0",
    ),
    "aten::max_pool2d_with_indices": (
        "aoti_torch_cuda_max_pool2d_with_indices",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, const int64_t* dilation, int64_t dilation_len_, int32_t ceil_mode, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::max_pool2d_with_indices_backward": (
        "aoti_torch_cuda_max_pool2d_with_indices_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t "
            "dilation_len_, int32_t ceil_mode, AtenTensorHandle indices, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::max_pool3d_with_indices": (
        "aoti_torch_cuda_max_pool3d_with_indices",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, const int64_t* dilation, int64_t dilation_len_, int32_t ceil_mode, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::max_pool3d_with_indices_backward": (
        "aoti_torch_cuda_max_pool3d_with_indices_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t "
            "dilation_len_, int32_t ceil_mode, AtenTensorHandle indices, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::max_unpool2d": (
        "aoti_torch_cuda_max_unpool2d",
        (
            "AtenTensorHandle self, AtenTensorHandle indices, const int64_t* output_size, "
            "int64_t output_size_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::max_unpool3d": (
        "aoti_torch_cuda_max_unpool3d",
        (
            "AtenTensorHandle self, AtenTensorHandle indices, const int64_t* output_size, "
            "int64_t output_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::median": (
        "aoti_torch_cuda_median",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::mm.dtype_out": (
        "aoti_torch_cuda_mm_dtype_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2, int32_t "
            "out_dtype"
        ),
    ),
    "aten::mm.out": (
        "aoti_torch_cuda_mm_out",
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2",
    ),
    "aten::mode": (
        "aoti_torch_cuda_mode",
        (
            "AtenTensorHandle self, int64_t dim, int32_t keepdim, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1"
        ),
    ),
    "aten::mul.Scalar": (
        "aoti_torch_cuda_mul_Scalar",
        "AtenTensorHandle self, double other, AtenTensorHandle* ret0",
    ),
    "aten::mul.Tensor": (
        "aoti_torch_cuda_mul_Tensor",
        "AtenTensorHandle self, AtenTensorHandle other, AtenTensorHandle* ret0",
    ),
    "aten::nanmedian": (
        "aoti_torch_cuda_nanmedian",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::narrow": (
        "aoti_torch_cuda_narrow",
        (
            "AtenTensorHandle self, int64_t dim, int64_t start, int64_t length, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::native_dropout": (
        "aoti_torch_cuda_native_dropout",
        (
            "AtenTensorHandle input, double p, int32_t* train, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1"
        ),
    ),
    "aten::nonzero": (
        "aoti_torch_cuda_nonzero",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::nonzero_static": (
        "aoti_torch_cuda_nonzero_static",
        "AtenTensorHandle self, int64_t size, int64_t fill_value, AtenTensorHandle* ret0",
    ),
    "aten::ormqr": (
        "aoti_torch_cuda_ormqr",
        (
            "AtenTensorHandle self, AtenTensorHandle input2, AtenTensorHandle input3, int32_t "
            "left, int32_t transpose, AtenTensorHandle* ret0"
        ),
    ),
    "aten::pad": (
        "aoti_torch_cuda_pad",
        (
            "AtenTensorHandle self, const int64_t* pad, int64_t pad_len_, const char* mode, "
            "double* value, AtenTensorHandle* ret0"
        ),
    ),
    "aten::permute": (
        "aoti_torch_cuda_permute",
        (
            "AtenTensorHandle self, const int64_t* dims, int64_t dims_len_, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::polar": (
        "aoti_torch_cuda_polar",
        "AtenTensorHandle abs, AtenTensorHandle angle, AtenTensorHandle* ret0",
    ),
    "aten::pow.Scalar": (
        "aoti_torch_cuda_pow_Scalar",
        "double self, AtenTensorHandle exponent, AtenTensorHandle* ret0",
    ),
    "aten::pow.Tensor_Scalar": (
        "aoti_torch_cuda_pow_Tensor_Scalar",
        "AtenTensorHandle self, double exponent, AtenTensorHandle* ret0",
    ),
    "aten::pow.Tensor_Tensor": (
        "aoti_torch_cuda_pow_Tensor_Tensor",
        "AtenTensorHandle self, AtenTensorHandle exponent, AtenTensorHandle* ret0",
    ),
    "aten::randint.low_out": (
        "aoti_torch_cuda_randint_low_out",
        (
            "AtenTensorHandle out, int64_t low, int64_t high, const int64_t* size, int64_t "
            "size_len_"
        ),
    ),
    "aten::repeat_interleave.Tensor": (
        "aoti_torch_cuda_repeat_interleave_Tensor",
        "AtenTensorHandle repeats, int64_t* output_size, AtenTensorHandle* ret0",
    ),
    "aten::replication_pad1d_backward": (
        "aoti_torch_cuda_replication_pad1d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* padding, "
            "int64_t padding_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::replication_pad2d_backward": (
        "aoti_torch_cuda_replication_pad2d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* padding, "
            "int64_t padding_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::reshape": (
        "aoti_torch_cuda_reshape",
        (
            "AtenTensorHandle self, const int64_t* shape, int64_t shape_len_, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::resize_": (
        "aoti_torch_cuda_resize_",
        (
            "AtenTensorHandle self, const int64_t* size, int64_t size_len_, int32_t* "
            "memory_format"
        ),
    ),
    "aten::resize_as_": (
        "aoti_torch_cuda_resize_as_",
        "AtenTensorHandle self, AtenTensorHandle the_template, int32_t* memory_format",
    ),
    "aten::scatter_reduce.two_out": (
        "aoti_torch_cuda_scatter_reduce_two_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle "
            "index, AtenTensorHandle src, const char* reduce, int32_t include_self"
        ),
    ),
    "aten::scatter.src_out": (
        "aoti_torch_cuda_scatter_src_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle "
            "index, AtenTensorHandle src"
        ),
    ),
    "aten::scatter.value_out": (
        "aoti_torch_cuda_scatter_value_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle "
            "index, double value"
        ),
    ),
    "aten::segment_reduce": (
        "aoti_torch_cuda_segment_reduce",
        (
            "AtenTensorHandle data, const char* reduce, AtenTensorHandle* lengths, "
            "AtenTensorHandle* indices, AtenTensorHandle* offsets, int64_t axis, int32_t "
            "unsafe, double* initial, AtenTensorHandle* ret0"
        ),
    ),
    "aten::set_.source_Tensor": (
        "aoti_torch_cuda_set__source_Tensor",
        "AtenTensorHandle self, AtenTensorHandle source",
    ),
    "aten::slice.Tensor": (
        "aoti_torch_cuda_slice_Tensor",
        (
            "AtenTensorHandle self, int64_t dim, int64_t* start, int64_t* end, int64_t step, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::soft_margin_loss_backward": (
        "aoti_torch_cuda_soft_margin_loss_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle target, "
            "int64_t reduction, AtenTensorHandle* ret0"
        ),
    ),
    "aten::sort": (
        "aoti_torch_cuda_sort",
        (
            "AtenTensorHandle self, int64_t dim, int32_t descending, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1"
        ),
    ),
    "aten::sort.stable": (
        "aoti_torch_cuda_sort_stable",
        (
            "AtenTensorHandle self, int32_t* stable, int64_t dim, int32_t descending, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::squeeze.dim": (
        "aoti_torch_cuda_squeeze_dim",
        "AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret0",
    ),
    "aten::topk": (
        "aoti_torch_cuda_topk",
        (
            "AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest, int32_t sorted, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::triangular_solve": (
        "aoti_torch_cuda_triangular_solve",
        (
            "AtenTensorHandle self, AtenTensorHandle A, int32_t upper, int32_t transpose, "
            "int32_t unitriangular, AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::upsample_bicubic2d_backward": (
        "aoti_torch_cuda_upsample_bicubic2d_backward",
        (
            "AtenTensorHandle grad_output, const int64_t* output_size, int64_t "
            "output_size_len_, const int64_t* input_size, int64_t input_size_len_, int32_t "
            "align_corners, double* scales_h, double* scales_w, AtenTensorHandle* ret0"
        ),
    ),
    "aten::upsample_linear1d_backward": (
        "aoti_torch_cuda_upsample_linear1d_backward",
        (
            "AtenTensorHandle grad_output, const int64_t* output_size, int64_t "
            "output_size_len_, const int64_t* input_size, int64_t input_size_len_, int32_t "
            "align_corners, double* scales, AtenTensorHandle* ret0"
        ),
    ),
    "aten::upsample_trilinear3d_backward": (
        "aoti_torch_cuda_upsample_trilinear3d_backward",
        (
            "AtenTensorHandle grad_output, const int64_t* output_size, int64_t "
            "output_size_len_, const int64_t* input_size, int64_t input_size_len_, int32_t "
            "align_corners, double* scales_d, double* scales_h, double* scales_w, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::view_as_complex": (
        "aoti_torch_cuda_view_as_complex",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::view_as_real": (
        "aoti_torch_cuda_view_as_real",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::view.dtype": (
        "aoti_torch_cuda_view_dtype",
        "AtenTensorHandle self, int32_t dtype, AtenTensorHandle* ret0",
    ),
}
