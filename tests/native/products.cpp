// What the runtime part tells cuBLAS of products of matrices, for every layout. In cuBLAS's and
// PyTorch's place stands what multiplies by definition, and what says how PyTorch is set.
#include <cstdio>
#include <vector>

#include "blas.cpp"  // NOLINT

#define SHOWN extern "C" [[gnu::visibility("default"), gnu::used]]

namespace {

// How PyTorch is set; all 0: as it comes.
struct {
  std::int8_t library;
  std::uint8_t fp16_reduction, bf16_reduction;
  bool fp16_sums, is_tuned;
  std::optional<std::int32_t> carveout;
} settings;

int math = 0, status = 0;       // of the handle; what products return
int products = 0, by_aten = 0;  // how many were made
std::vector<int> math_of_products;

int multiply(int ta, int tb, int m, int n, int k, const float* a, int lda, const float* b, int ldb,
    float* c, int ldc) {
  if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return 7;  // as cuBLAS insists
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) {
        sum += (ta ? a[l + i * lda] : a[i + l * lda]) * (tb ? b[j + l * ldb] : b[l + j * ldb]);
      }
      c[i + j * ldc] = sum;
    }
  }
  return status;
}

}  // namespace

SHOWN AOTITorchError torch_get_current_cuda_blas_handle(void** handle) {
  *handle = &settings;
  return AOTI_TORCH_SUCCESS;
}
#ifdef SCOPES
// As in PyTorch 2.15: 48 bytes, returned in place, and set up as long as the object lives.
int scopes = 0;  // that live
struct Scoped {
  Scoped() { ++scopes; }
  ~Scoped() { --scopes; }
  Scoped(const Scoped&) = delete;
  void* handle = &scopes;
  void* rest[5] = {};
};
[[gnu::visibility("default"), gnu::used]] Scoped scoped_handle() asm(
    "_ZN2at4cuda37getCurrentCUDABlasHandleWithWorkspaceEv");
Scoped scoped_handle() { return Scoped(); }
SHOWN void _ZN2at4cuda27CUDABlasHandleWithWorkspaceD1Ev(Scoped* scope) { scope->~Scoped(); }
bool is_set_up(void* handle) { return handle == &scopes && scopes == 1; }
#else
constexpr int scopes = 0;
bool is_set_up(void* handle) { return handle == &settings; }
#endif
SHOWN int cublasGetMathMode(void*, int* found) {
  *found = math;
  return 0;
}
SHOWN int cublasSetMathMode(void*, int wanted) {
  math = wanted;
  return 0;
}
SHOWN const char* cublasGetStatusName(int) { return "CUBLAS_STATUS_OF_THE_TEST"; }
SHOWN int cublasSgemm_v2(void* handle, int ta, int tb, int m, int n, int k, const float*, const float* a,
    int lda, const float* b, int ldb, const float*, float* c, int ldc) {
  if (!is_set_up(handle)) return 1;
  ++products;
  math_of_products.push_back(math);
  return multiply(ta, tb, m, n, k, a, lda, b, ldb, c, ldc);
}
SHOWN int cublasSgemmStridedBatched(void* handle, int ta, int tb, int m, int n, int k, const float*,
    const float* a, int lda, long long step_a, const float* b, int ldb, long long step_b,
    const float*, float* c, int ldc, long long step_c, int count) {
  if (!is_set_up(handle)) return 1;
  ++products;
  for (int i = 0; i < count; ++i) {
    const int found =
        multiply(ta, tb, m, n, k, a + i * step_a, lda, b + i * step_b, ldb, c + i * step_c, ldc);
    if (found != 0) return found;
  }
  return 0;
}
SHOWN int cublasGemmEx(void*, int, int, int, int, int, const void*, const void*, int type) {
  math_of_products.push_back(math);
  return type == 14 ? 0 : 1;
}
SHOWN int cublasDgemm_v2() { return 1; }
SHOWN int cublasDgemmStridedBatched() { return 1; }
SHOWN int cublasGemmStridedBatchedEx() { return 1; }

SHOWN AOTITorchError aoti_torch_cuda_mm_out(AtenTensorHandle, AtenTensorHandle, AtenTensorHandle) {
  ++by_aten;
  return AOTI_TORCH_SUCCESS;
}
SHOWN AOTITorchError aoti_torch_cuda_bmm_out(AtenTensorHandle, AtenTensorHandle, AtenTensorHandle) {
  ++by_aten;
  return AOTI_TORCH_SUCCESS;
}
SHOWN AOTITorchError aoti_torch_create_tensor_from_blob(void* data, int64_t, const int64_t*,
    const int64_t*, int64_t, int32_t, int32_t, int32_t, AtenTensorHandle* made) {
  *made = static_cast<AtenTensorHandle>(data);
  return AOTI_TORCH_SUCCESS;
}
SHOWN AOTITorchError aoti_torch_delete_tensor_object(AtenTensorHandle) {
  return AOTI_TORCH_SUCCESS;
}

SHOWN void* _ZN2at13globalContextEv() { return &settings; }
SHOWN std::int8_t _ZN2at7Context20blasPreferredBackendEv(void*) { return settings.library; }
SHOWN std::uint8_t _ZNK2at7Context24allowFP16ReductionCuBLASEv(const void*) {
  return settings.fp16_reduction;
}
SHOWN std::uint8_t _ZNK2at7Context24allowBF16ReductionCuBLASEv(const void*) {
  return settings.bf16_reduction;
}
SHOWN bool _ZNK2at7Context27allowFP16AccumulationCuBLASEv(const void*) {
  return settings.fp16_sums;
}
[[gnu::visibility("default"), gnu::used]] std::optional<std::int32_t> carveout(const void*) asm(
    "_ZNK2at7Context24_SMCarveout_EXPERIMENTALEv");
std::optional<std::int32_t> carveout(const void*) { return settings.carveout; }
SHOWN void* _ZN2at4cuda7tunable16getTuningContextEv() { return &settings; }
SHOWN bool _ZNK2at4cuda7tunable13TuningContext18IsTunableOpEnabledEv(const void*) {
  return settings.is_tuned;
}

namespace {

// A matrix that lies in one of several ways, full of small numbers.
wir::Matrix laid_out(std::vector<float>& memory, int way, int rows, int columns, int count) {
  const long strides[][2] = { { columns, 1 }, { 1, rows }, { columns + 2, 1 }, { 1, rows + 2 },
    { 2 * columns, 2 }, { 0, 1 }, { 1, 0 }, { 7, 1 }, { 1, 7 } };
  const auto [by_row, by_column] = strides[way];
  const long size = rows * by_row + columns * by_column + 1;
  memory.resize(size * count);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i * 5 % 7) - 3;
  return { memory.data(), rows, columns, by_row, by_column, size };
}
constexpr int kWays = 9;

int wrong = 0;

void try_out(int m, int k, int n, int count, int left_way, int right_way) {
  std::vector<float> a, b, c(m * n * (count == 0 ? 1 : count), 99);
  const wir::Matrix left = laid_out(a, left_way, m, k, count == 0 ? 1 : count);
  const wir::Matrix right = laid_out(b, right_way, k, n, count == 0 ? 1 : count);
  const wir::Matrix out{ c.data(), m, n, n, 1, m * n };
  const int before = products;
  if (count == 0) {
    wir::mm(0, wir::dtype::float32, out, left, right);
  } else {
    wir::bmm(0, wir::dtype::float32, count, out, left, right);
  }
  if (products == before) return;
  for (std::size_t at = 0; at < c.size(); ++at) {
    const long which = at / (m * n), i = at / n % m, j = at % n;
    float sum = 0;
    for (int l = 0; l < k; ++l) {
      sum += a[which * left.batch_stride + i * left.row_stride + l * left.column_stride] *
             b[which * right.batch_stride + l * right.row_stride + j * right.column_stride];
    }
    if (c[at] != sum) ++wrong;
  }
}

void count_ways() {
  for (int number = 0; number < 4 * 4 * 4 * 3; ++number) {
    const int sizes[] = { 1, 2, 3, 5 };
    const int m = sizes[number % 4], k = sizes[number / 4 % 4], n = sizes[number / 16 % 4];
    const int count = number / 64 == 2 ? 3 : number / 64;
    for (int ways = 0; ways < kWays * kWays; ++ways) {
      try_out(m, k, n, count, ways % kWays, ways / kWays);
    }
  }
  std::printf("%d by cuBLAS, %d by ATen, %d wrong\n", products, by_aten, wrong);
}

template <class Value>
void with(const char* name, Value& setting, Value value) {
  float zeros[4] = {};
  const wir::Matrix one{ zeros, 2, 2, 2, 1 };
  const Value value_before = setting;
  const int before = products;
  setting = value;
  wir::mm(0, wir::dtype::float32, one, one, one);
  std::printf("%s: %s\n", name, products == before ? "ATen" : "cuBLAS");
  setting = value_before;
}

void show_math() {
  float zeros[4] = {};
  const wir::Matrix one{ zeros, 2, 2, 2, 1 };
  math = 3;  // CUBLAS_TF32_TENSOR_OP_MATH
  math_of_products.clear();
  for (const std::int32_t type :
      { wir::dtype::float32, wir::dtype::bfloat16, wir::dtype::float32 }) {
    wir::mm(0, type, one, one, one);
  }
  std::printf("math:");
  for (const int each : math_of_products) std::printf(" %d", each);
  std::printf(", left at %d\n", math);
  status = 13;
  try {
    wir::mm(0, wir::dtype::float32, one, one, one);
  } catch (const wir::Error& error) {
    std::printf("%s\n", error.what());
  }
  std::printf("%d left set up\n", scopes);
}

}  // namespace

int main() {
  count_ways();
  with<std::int8_t>("as it comes", settings.library, 0);
  with<std::int8_t>("cuBLAS asked for", settings.library, 1);
  with<std::int8_t>("cuBLASLt", settings.library, 2);
  with<std::uint8_t>("float16 reduced in float32", settings.fp16_reduction, 1);
  with<std::uint8_t>("bfloat16 reduced in float32", settings.bf16_reduction, 1);
  with("float16 throughout", settings.fp16_sums, true);
  with("tuned", settings.is_tuned, true);
  with<std::optional<std::int32_t>>("fewer processors", settings.carveout, 0);
  show_math();
}
