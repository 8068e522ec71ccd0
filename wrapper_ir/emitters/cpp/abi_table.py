"""The functions of PyTorch's C shim that generated code calls.

Written by tools/make_cpp_abi.py. For each op the C function and its parameters, valid
for every PyTorch since 2.11.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SHIMS"]

SHIMS: Final[dict[str, tuple[str, str]]] = {
    "aten::_adaptive_avg_pool2d": (
        "aoti_torch_cpu__adaptive_avg_pool2d",
        (
            "AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::_adaptive_avg_pool2d_backward": (
        "aoti_torch_cpu__adaptive_avg_pool2d_backward",
        "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::_adaptive_avg_pool3d": (
        "aoti_torch_cpu__adaptive_avg_pool3d",
        (
            "AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::_adaptive_avg_pool3d_backward": (
        "aoti_torch_cpu__adaptive_avg_pool3d_backward",
        "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::_addmm_activation": (
        "aoti_torch_cpu__addmm_activation",
        (
            "AtenTensorHandle self, AtenTensorHandle mat1, AtenTensorHandle mat2, double "
            "beta, double alpha, int32_t use_gelu, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_cdist_backward": (
        "aoti_torch_cpu__cdist_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle x1, AtenTensorHandle x2, double "
            "p, AtenTensorHandle cdist, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_cdist_forward": (
        "aoti_torch_cpu__cdist_forward",
        (
            "AtenTensorHandle x1, AtenTensorHandle x2, double p, int64_t* compute_mode, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::_dyn_quant_matmul_4bit": (
        "aoti_torch_cpu__dyn_quant_matmul_4bit",
        (
            "AtenTensorHandle inp, AtenTensorHandle packed_weights, int64_t block_size, "
            "int64_t in_features, int64_t out_features, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_dyn_quant_pack_4bit_weight": (
        "aoti_torch_cpu__dyn_quant_pack_4bit_weight",
        (
            "AtenTensorHandle weights, AtenTensorHandle scales_zeros, AtenTensorHandle* bias, "
            "int64_t block_size, int64_t in_features, int64_t out_features, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::_embedding_bag": (
        "aoti_torch_cpu__embedding_bag",
        (
            "AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets, "
            "int32_t scale_grad_by_freq, int64_t mode, int32_t sparse, AtenTensorHandle* "
            "per_sample_weights, int32_t include_last_offset, int64_t padding_idx, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, "
            "AtenTensorHandle* ret3"
        ),
    ),
    "aten::_embedding_bag_dense_backward": (
        "aoti_torch_cpu__embedding_bag_dense_backward",
        (
            "AtenTensorHandle grad, AtenTensorHandle indices, AtenTensorHandle offset2bag, "
            "AtenTensorHandle bag_size, AtenTensorHandle maximum_indices, int64_t "
            "num_weights, int32_t scale_grad_by_freq, int64_t mode, AtenTensorHandle* "
            "per_sample_weights, int64_t padding_idx, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_embedding_bag_forward_only": (
        "aoti_torch_cpu__embedding_bag_forward_only",
        (
            "AtenTensorHandle weight, AtenTensorHandle indices, AtenTensorHandle offsets, "
            "int32_t scale_grad_by_freq, int64_t mode, int32_t sparse, AtenTensorHandle* "
            "per_sample_weights, int32_t include_last_offset, int64_t padding_idx, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2, "
            "AtenTensorHandle* ret3"
        ),
    ),
    "aten::_embedding_bag_per_sample_weights_backward": (
        "aoti_torch_cpu__embedding_bag_per_sample_weights_backward",
        (
            "AtenTensorHandle grad, AtenTensorHandle weight, AtenTensorHandle indices, "
            "AtenTensorHandle offsets, AtenTensorHandle offset2bag, int64_t mode, int64_t "
            "padding_idx, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_fft_c2c": (
        "aoti_torch_cpu__fft_c2c",
        (
            "AtenTensorHandle self, const int64_t* dim, int64_t dim_len_, int64_t "
            "normalization, int32_t forward, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_fft_r2c": (
        "aoti_torch_cpu__fft_r2c",
        (
            "AtenTensorHandle self, const int64_t* dim, int64_t dim_len_, int64_t "
            "normalization, int32_t onesided, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_fused_moving_avg_obs_fq_helper": (
        "aoti_torch_cpu__fused_moving_avg_obs_fq_helper",
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
        "aoti_torch_cpu__fused_moving_avg_obs_fq_helper_functional",
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
        "aoti_torch_cpu__fused_rms_norm",
        (
            "AtenTensorHandle input, const int64_t* normalized_shape, int64_t "
            "normalized_shape_len_, AtenTensorHandle* weight, double* eps, AtenTensorHandle* "
            "ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::_int_mm.out": (
        "aoti_torch_cpu__int_mm_out",
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2",
    ),
    "aten::_pdist_backward": (
        "aoti_torch_cpu__pdist_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, double p, AtenTensorHandle "
            "pdist, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_pdist_forward": (
        "aoti_torch_cpu__pdist_forward",
        "AtenTensorHandle self, double p, AtenTensorHandle* ret0",
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu": (
        "aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu",
        (
            "AtenTensorHandle query, AtenTensorHandle key, AtenTensorHandle value, double "
            "dropout_p, int32_t is_causal, AtenTensorHandle* attn_mask, double* scale, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (
        "aoti_torch_cpu__scaled_dot_product_flash_attention_for_cpu_backward",
        (
            "AtenTensorHandle grad_out, AtenTensorHandle query, AtenTensorHandle key, "
            "AtenTensorHandle value, AtenTensorHandle out, AtenTensorHandle logsumexp, double "
            "dropout_p, int32_t is_causal, AtenTensorHandle* attn_mask, double* scale, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2"
        ),
    ),
    "aten::_scaled_mm": (
        "aoti_torch_cpu__scaled_mm",
        (
            "AtenTensorHandle self, AtenTensorHandle mat2, AtenTensorHandle scale_a, "
            "AtenTensorHandle scale_b, AtenTensorHandle* bias, AtenTensorHandle* "
            "scale_result, int32_t* out_dtype, int32_t use_fast_accum, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_scaled_mm.out": (
        "aoti_torch_cpu__scaled_mm_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2, "
            "AtenTensorHandle scale_a, AtenTensorHandle scale_b, AtenTensorHandle* bias, "
            "AtenTensorHandle* scale_result, int32_t* out_dtype, int32_t use_fast_accum"
        ),
    ),
    "aten::_segment_reduce_backward": (
        "aoti_torch_cpu__segment_reduce_backward",
        (
            "AtenTensorHandle grad, AtenTensorHandle output, AtenTensorHandle data, const "
            "char* reduce, AtenTensorHandle* lengths, AtenTensorHandle* offsets, int64_t "
            "axis, double* initial, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_trilinear": (
        "aoti_torch_cpu__trilinear",
        (
            "AtenTensorHandle i1, AtenTensorHandle i2, AtenTensorHandle i3, const int64_t* "
            "expand1, int64_t expand1_len_, const int64_t* expand2, int64_t expand2_len_, "
            "const int64_t* expand3, int64_t expand3_len_, const int64_t* sumdim, int64_t "
            "sumdim_len_, int64_t unroll_dim, AtenTensorHandle* ret0"
        ),
    ),
    "aten::_weight_int8pack_mm": (
        "aoti_torch_cpu__weight_int8pack_mm",
        (
            "AtenTensorHandle self, AtenTensorHandle mat2, AtenTensorHandle scales, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::abs": (
        "aoti_torch_cpu_abs",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::adaptive_max_pool2d": (
        "aoti_torch_cpu_adaptive_max_pool2d",
        (
            "AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::adaptive_max_pool2d_backward": (
        "aoti_torch_cpu_adaptive_max_pool2d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle indices, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::adaptive_max_pool3d": (
        "aoti_torch_cpu_adaptive_max_pool3d",
        (
            "AtenTensorHandle self, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::adaptive_max_pool3d_backward": (
        "aoti_torch_cpu_adaptive_max_pool3d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle indices, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::add.Scalar": (
        "aoti_torch_cpu_add_Scalar",
        "AtenTensorHandle self, double other, double alpha, AtenTensorHandle* ret0",
    ),
    "aten::add.Tensor": (
        "aoti_torch_cpu_add_Tensor",
        ("AtenTensorHandle self, AtenTensorHandle other, double alpha, AtenTensorHandle* " "ret0"),
    ),
    "aten::addbmm": (
        "aoti_torch_cpu_addbmm",
        (
            "AtenTensorHandle self, AtenTensorHandle batch1, AtenTensorHandle batch2, double "
            "beta, double alpha, AtenTensorHandle* ret0"
        ),
    ),
    "aten::addmm.out": (
        "aoti_torch_cpu_addmm_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat1, "
            "AtenTensorHandle mat2, double beta, double alpha"
        ),
    ),
    "aten::addmv": (
        "aoti_torch_cpu_addmv",
        (
            "AtenTensorHandle self, AtenTensorHandle mat, AtenTensorHandle vec, double beta, "
            "double alpha, AtenTensorHandle* ret0"
        ),
    ),
    "aten::amax": (
        "aoti_torch_aten_amax",
        (
            "AtenTensorHandle self, const int64_t* dim, int64_t dim_len_, int32_t keepdim, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::angle": (
        "aoti_torch_cpu_angle",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::avg_pool2d": (
        "aoti_torch_cpu_avg_pool2d",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, int32_t ceil_mode, int32_t count_include_pad, int64_t* "
            "divisor_override, AtenTensorHandle* ret0"
        ),
    ),
    "aten::avg_pool2d_backward": (
        "aoti_torch_cpu_avg_pool2d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, int32_t ceil_mode, int32_t "
            "count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret0"
        ),
    ),
    "aten::avg_pool3d": (
        "aoti_torch_cpu_avg_pool3d",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, int32_t ceil_mode, int32_t count_include_pad, int64_t* "
            "divisor_override, AtenTensorHandle* ret0"
        ),
    ),
    "aten::avg_pool3d_backward": (
        "aoti_torch_cpu_avg_pool3d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, int32_t ceil_mode, int32_t "
            "count_include_pad, int64_t* divisor_override, AtenTensorHandle* ret0"
        ),
    ),
    "aten::baddbmm.out": (
        "aoti_torch_cpu_baddbmm_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle batch1, "
            "AtenTensorHandle batch2, double beta, double alpha"
        ),
    ),
    "aten::bmm.out": (
        "aoti_torch_cpu_bmm_out",
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2",
    ),
    "aten::bucketize.Tensor": (
        "aoti_torch_cpu_bucketize_Tensor",
        (
            "AtenTensorHandle self, AtenTensorHandle boundaries, int32_t out_int32, int32_t "
            "right, AtenTensorHandle* ret0"
        ),
    ),
    "aten::cat": (
        "aoti_torch_cpu_cat",
        (
            "const AtenTensorHandle* tensors, int64_t tensors_len_, int64_t dim, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::cholesky_inverse": (
        "aoti_torch_cpu_cholesky_inverse",
        "AtenTensorHandle self, int32_t upper, AtenTensorHandle* ret0",
    ),
    "aten::cholesky_solve": (
        "aoti_torch_cpu_cholesky_solve",
        (
            "AtenTensorHandle self, AtenTensorHandle input2, int32_t upper, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::convolution": (
        "aoti_torch_cpu_convolution",
        (
            "AtenTensorHandle input, AtenTensorHandle weight, AtenTensorHandle* bias, const "
            "int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, const int64_t* dilation, int64_t dilation_len_, int32_t "
            "transposed, const int64_t* output_padding, int64_t output_padding_len_, int64_t "
            "groups, AtenTensorHandle* ret0"
        ),
    ),
    "aten::cummax": (
        "aoti_torch_cpu_cummax",
        ("AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret0, AtenTensorHandle* " "ret1"),
    ),
    "aten::cummin": (
        "aoti_torch_cpu_cummin",
        ("AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret0, AtenTensorHandle* " "ret1"),
    ),
    "aten::cumprod": (
        "aoti_torch_cpu_cumprod",
        "AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret0",
    ),
    "aten::cumsum": (
        "aoti_torch_cpu_cumsum",
        "AtenTensorHandle self, int64_t dim, int32_t* dtype, AtenTensorHandle* ret0",
    ),
    "aten::fill_.Scalar": (
        "aoti_torch_cpu_fill__Scalar",
        "AtenTensorHandle self, double value",
    ),
    "aten::fractional_max_pool2d": (
        "aoti_torch_cpu_fractional_max_pool2d",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* output_size, int64_t output_size_len_, AtenTensorHandle "
            "random_samples, AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::fractional_max_pool2d_backward": (
        "aoti_torch_cpu_fractional_max_pool2d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle indices, AtenTensorHandle* ret0"
        ),
    ),
    "aten::fractional_max_pool3d": (
        "aoti_torch_cpu_fractional_max_pool3d",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* output_size, int64_t output_size_len_, AtenTensorHandle "
            "random_samples, AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::fractional_max_pool3d_backward": (
        "aoti_torch_cpu_fractional_max_pool3d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* output_size, int64_t output_size_len_, "
            "AtenTensorHandle indices, AtenTensorHandle* ret0"
        ),
    ),
    "aten::gcd": (
        "aoti_torch_cpu_gcd",
        "AtenTensorHandle self, AtenTensorHandle other, AtenTensorHandle* ret0",
    ),
    "aten::geqrf": (
        "aoti_torch_cpu_geqrf",
        "AtenTensorHandle self, AtenTensorHandle* ret0, AtenTensorHandle* ret1",
    ),
    "aten::histc": (
        "aoti_torch_cpu_histc",
        ("AtenTensorHandle self, int64_t bins, double min, double max, AtenTensorHandle* " "ret0"),
    ),
    "aten::index_reduce": (
        "aoti_torch_cpu_index_reduce",
        (
            "AtenTensorHandle self, int64_t dim, AtenTensorHandle index, AtenTensorHandle "
            "source, const char* reduce, int32_t include_self, AtenTensorHandle* ret0"
        ),
    ),
    "aten::kthvalue": (
        "aoti_torch_cpu_kthvalue",
        (
            "AtenTensorHandle self, int64_t k, int64_t dim, int32_t keepdim, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::logcumsumexp": (
        "aoti_torch_cpu_logcumsumexp",
        "AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret0",
    ),
    "aten::lu_unpack": (
        "aoti_torch_cpu_lu_unpack",
        (
            "AtenTensorHandle LU_data, AtenTensorHandle LU_pivots, int32_t unpack_data, "
            "int32_t unpack_pivots, AtenTensorHandle* ret0, AtenTensorHandle* ret1, "
            "AtenTensorHandle* ret2"
        ),
    ),
    "aten::masked_scatter": (
        "aoti_torch_cpu_masked_scatter",
        (
            "AtenTensorHandle self, AtenTensorHandle mask, AtenTensorHandle source, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::masked_scatter_backward": (
        "aoti_torch_cpu_masked_scatter_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle mask, const int64_t* sizes, "
            "int64_t sizes_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::masked_select": (
        "aoti_torch_cpu_masked_select",
        "AtenTensorHandle self, AtenTensorHandle mask, AtenTensorHandle* ret0",
    ),
    "aten::max_pool2d_with_indices": (
        "aoti_torch_cpu_max_pool2d_with_indices",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, const int64_t* dilation, int64_t dilation_len_, int32_t ceil_mode, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::max_pool2d_with_indices_backward": (
        "aoti_torch_cpu_max_pool2d_with_indices_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t "
            "dilation_len_, int32_t ceil_mode, AtenTensorHandle indices, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::max_pool3d_with_indices": (
        "aoti_torch_cpu_max_pool3d_with_indices",
        (
            "AtenTensorHandle self, const int64_t* kernel_size, int64_t kernel_size_len_, "
            "const int64_t* stride, int64_t stride_len_, const int64_t* padding, int64_t "
            "padding_len_, const int64_t* dilation, int64_t dilation_len_, int32_t ceil_mode, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::max_pool3d_with_indices_backward": (
        "aoti_torch_cpu_max_pool3d_with_indices_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* kernel_size, "
            "int64_t kernel_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, const int64_t* dilation, int64_t "
            "dilation_len_, int32_t ceil_mode, AtenTensorHandle indices, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::max_unpool2d": (
        "aoti_torch_cpu_max_unpool2d",
        (
            "AtenTensorHandle self, AtenTensorHandle indices, const int64_t* output_size, "
            "int64_t output_size_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::max_unpool3d": (
        "aoti_torch_cpu_max_unpool3d",
        (
            "AtenTensorHandle self, AtenTensorHandle indices, const int64_t* output_size, "
            "int64_t output_size_len_, const int64_t* stride, int64_t stride_len_, const "
            "int64_t* padding, int64_t padding_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::median": (
        "aoti_torch_cpu_median",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::mm.out": (
        "aoti_torch_cpu_mm_out",
        "AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2",
    ),
    "aten::mode": (
        "aoti_torch_cpu_mode",
        (
            "AtenTensorHandle self, int64_t dim, int32_t keepdim, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1"
        ),
    ),
    "aten::mul.Scalar": (
        "aoti_torch_cpu_mul_Scalar",
        "AtenTensorHandle self, double other, AtenTensorHandle* ret0",
    ),
    "aten::mul.Tensor": (
        "aoti_torch_cpu_mul_Tensor",
        "AtenTensorHandle self, AtenTensorHandle other, AtenTensorHandle* ret0",
    ),
    "aten::nanmedian": (
        "aoti_torch_cpu_nanmedian",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::narrow": (
        "aoti_torch_cpu_narrow",
        (
            "AtenTensorHandle self, int64_t dim, int64_t start, int64_t length, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::native_dropout": (
        "aoti_torch_cpu_native_dropout",
        (
            "AtenTensorHandle input, double p, int32_t* train, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1"
        ),
    ),
    "aten::nonzero": (
        "aoti_torch_cpu_nonzero",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::nonzero_static": (
        "aoti_torch_cpu_nonzero_static",
        "AtenTensorHandle self, int64_t size, int64_t fill_value, AtenTensorHandle* ret0",
    ),
    "aten::ormqr": (
        "aoti_torch_cpu_ormqr",
        (
            "AtenTensorHandle self, AtenTensorHandle input2, AtenTensorHandle input3, int32_t "
            "left, int32_t transpose, AtenTensorHandle* ret0"
        ),
    ),
    "aten::pad": (
        "aoti_torch_cpu_pad",
        (
            "AtenTensorHandle self, const int64_t* pad, int64_t pad_len_, const char* mode, "
            "double* value, AtenTensorHandle* ret0"
        ),
    ),
    "aten::permute": (
        "aoti_torch_cpu_permute",
        (
            "AtenTensorHandle self, const int64_t* dims, int64_t dims_len_, AtenTensorHandle* "
            "ret0"
        ),
    ),
    "aten::polar": (
        "aoti_torch_cpu_polar",
        "AtenTensorHandle abs, AtenTensorHandle angle, AtenTensorHandle* ret0",
    ),
    "aten::pow.Scalar": (
        "aoti_torch_cpu_pow_Scalar",
        "double self, AtenTensorHandle exponent, AtenTensorHandle* ret0",
    ),
    "aten::pow.Tensor_Scalar": (
        "aoti_torch_cpu_pow_Tensor_Scalar",
        "AtenTensorHandle self, double exponent, AtenTensorHandle* ret0",
    ),
    "aten::pow.Tensor_Tensor": (
        "aoti_torch_cpu_pow_Tensor_Tensor",
        "AtenTensorHandle self, AtenTensorHandle exponent, AtenTensorHandle* ret0",
    ),
    "aten::randint.low_out": (
        "aoti_torch_cpu_randint_low_out",
        (
            "AtenTensorHandle out, int64_t low, int64_t high, const int64_t* size, int64_t "
            "size_len_"
        ),
    ),
    "aten::repeat_interleave.Tensor": (
        "aoti_torch_cpu_repeat_interleave_Tensor",
        "AtenTensorHandle repeats, int64_t* output_size, AtenTensorHandle* ret0",
    ),
    "aten::replication_pad1d_backward": (
        "aoti_torch_cpu_replication_pad1d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* padding, "
            "int64_t padding_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::replication_pad2d_backward": (
        "aoti_torch_cpu_replication_pad2d_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, const int64_t* padding, "
            "int64_t padding_len_, AtenTensorHandle* ret0"
        ),
    ),
    "aten::reshape": (
        "aoti_torch_cpu_reshape",
        (
            "AtenTensorHandle self, const int64_t* shape, int64_t shape_len_, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::resize_": (
        "aoti_torch_cpu_resize_",
        (
            "AtenTensorHandle self, const int64_t* size, int64_t size_len_, int32_t* "
            "memory_format"
        ),
    ),
    "aten::resize_as_": (
        "aoti_torch_cpu_resize_as_",
        "AtenTensorHandle self, AtenTensorHandle the_template, int32_t* memory_format",
    ),
    "aten::scatter_reduce.two_out": (
        "aoti_torch_cpu_scatter_reduce_two_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle "
            "index, AtenTensorHandle src, const char* reduce, int32_t include_self"
        ),
    ),
    "aten::scatter.src_out": (
        "aoti_torch_cpu_scatter_src_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle "
            "index, AtenTensorHandle src"
        ),
    ),
    "aten::scatter.value_out": (
        "aoti_torch_cpu_scatter_value_out",
        (
            "AtenTensorHandle out, AtenTensorHandle self, int64_t dim, AtenTensorHandle "
            "index, double value"
        ),
    ),
    "aten::segment_reduce": (
        "aoti_torch_cpu_segment_reduce",
        (
            "AtenTensorHandle data, const char* reduce, AtenTensorHandle* lengths, "
            "AtenTensorHandle* indices, AtenTensorHandle* offsets, int64_t axis, int32_t "
            "unsafe, double* initial, AtenTensorHandle* ret0"
        ),
    ),
    "aten::set_.source_Tensor": (
        "aoti_torch_cpu_set__source_Tensor",
        "AtenTensorHandle self, AtenTensorHandle source",
    ),
    "aten::slice.Tensor": (
        "aoti_torch_cpu_slice_Tensor",
        (
            "AtenTensorHandle self, int64_t dim, int64_t* start, int64_t* end, int64_t step, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::soft_margin_loss_backward": (
        "aoti_torch_cpu_soft_margin_loss_backward",
        (
            "AtenTensorHandle grad_output, AtenTensorHandle self, AtenTensorHandle target, "
            "int64_t reduction, AtenTensorHandle* ret0"
        ),
    ),
    "aten::sort": (
        "aoti_torch_cpu_sort",
        (
            "AtenTensorHandle self, int64_t dim, int32_t descending, AtenTensorHandle* ret0, "
            "AtenTensorHandle* ret1"
        ),
    ),
    "aten::sort.stable": (
        "aoti_torch_cpu_sort_stable",
        (
            "AtenTensorHandle self, int32_t* stable, int64_t dim, int32_t descending, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::squeeze.dim": (
        "aoti_torch_cpu_squeeze_dim",
        "AtenTensorHandle self, int64_t dim, AtenTensorHandle* ret0",
    ),
    "aten::subtract.Tensor": (
        "aoti_torch_aten_subtract_Tensor",
        ("AtenTensorHandle self, AtenTensorHandle other, double alpha, AtenTensorHandle* " "ret0"),
    ),
    "aten::topk": (
        "aoti_torch_cpu_topk",
        (
            "AtenTensorHandle self, int64_t k, int64_t dim, int32_t largest, int32_t sorted, "
            "AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::triangular_solve": (
        "aoti_torch_cpu_triangular_solve",
        (
            "AtenTensorHandle self, AtenTensorHandle A, int32_t upper, int32_t transpose, "
            "int32_t unitriangular, AtenTensorHandle* ret0, AtenTensorHandle* ret1"
        ),
    ),
    "aten::upsample_bicubic2d_backward": (
        "aoti_torch_cpu_upsample_bicubic2d_backward",
        (
            "AtenTensorHandle grad_output, const int64_t* output_size, int64_t "
            "output_size_len_, const int64_t* input_size, int64_t input_size_len_, int32_t "
            "align_corners, double* scales_h, double* scales_w, AtenTensorHandle* ret0"
        ),
    ),
    "aten::upsample_linear1d_backward": (
        "aoti_torch_cpu_upsample_linear1d_backward",
        (
            "AtenTensorHandle grad_output, const int64_t* output_size, int64_t "
            "output_size_len_, const int64_t* input_size, int64_t input_size_len_, int32_t "
            "align_corners, double* scales, AtenTensorHandle* ret0"
        ),
    ),
    "aten::upsample_trilinear3d_backward": (
        "aoti_torch_cpu_upsample_trilinear3d_backward",
        (
            "AtenTensorHandle grad_output, const int64_t* output_size, int64_t "
            "output_size_len_, const int64_t* input_size, int64_t input_size_len_, int32_t "
            "align_corners, double* scales_d, double* scales_h, double* scales_w, "
            "AtenTensorHandle* ret0"
        ),
    ),
    "aten::view_as_complex": (
        "aoti_torch_cpu_view_as_complex",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::view_as_real": (
        "aoti_torch_cpu_view_as_real",
        "AtenTensorHandle self, AtenTensorHandle* ret0",
    ),
    "aten::view.dtype": (
        "aoti_torch_cpu_view_dtype",
        "AtenTensorHandle self, int32_t dtype, AtenTensorHandle* ret0",
    ),
}
