// Matrix products on a GPU. Linked into programs that call cuBLAS directly.
#include <dlfcn.h>
#include <torch/headeronly/version.h>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>

#include <wir/blas.h>
#include <wir/dtype.h>
#include <wir/error.h>
#include <wir/tensor.h>

extern "C" {
// PyTorch's stable ABI headers declare this only if CUDA's headers are present.
[[gnu::weak]] AOTITorchError torch_get_current_cuda_blas_handle(void** handle);
AOTITorchError aoti_torch_cuda_mm_out(
    AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2);
AOTITorchError aoti_torch_cuda_bmm_out(
    AtenTensorHandle out, AtenTensorHandle self, AtenTensorHandle mat2);
}

namespace wir {
namespace {

// From cublas_api.h and library_types.h.
using Status = int;
constexpr int kDefaultMath = 0;      // CUBLAS_DEFAULT_MATH
constexpr int kFloat16 = 2;          // CUDA_R_16F
constexpr int kBfloat16 = 14;        // CUDA_R_16BF
constexpr int kComputeFloat32 = 68;  // CUBLAS_COMPUTE_32F
constexpr int kTensorCores = 99;     // CUBLAS_GEMM_DEFAULT_TENSOR_OP

template <class Function>
bool find(Function*& function, const char* name, std::initializer_list<const char*> libraries) {
  void* found = dlsym(RTLD_DEFAULT, name);
  for (const char* library : libraries) {
    if (found != nullptr) break;
    if (void* loaded = dlopen(library, RTLD_NOW | RTLD_NOLOAD)) {
      found = dlsym(loaded, name);
      dlclose(loaded);
    }
  }
  function = reinterpret_cast<Function*>(found);
  return found != nullptr;
}

// Selects the GPU once per thread. PyTorch would warn about a thread that has not used it yet.
void enter(std::int32_t gpu) {
  static const auto set_device = [] {
    int (*found)(int) = nullptr;
    find(found, "cudaSetDevice", { "libcudart.so.13", "libcudart.so.12" });
    return found;
  }();
  thread_local bool entered = false;
  if (!entered && set_device != nullptr) entered = set_device(gpu) == 0;
}

// Releases of PyTorch under which products were computed on several busy streams of a GPU, right.
constexpr bool kIsTried =
    TORCH_VERSION_MAJOR == 2 && (TORCH_VERSION_MINOR == 11 || TORCH_VERSION_MINOR == 15);

// The PyTorch settings by which ATen chooses how to compute a product. They are not part of its C
// interface, so they are looked up by mangled name. If one is missing, all count as unknown.
class Settings {
 public:
  static const Settings& get() {
    static const Settings settings;
    return settings;
  }

  // Whether ATen would call cuBLAS, and with the same options as this file.
  bool are_usual() const {
    if (!kIsTried || !known_) return false;
    void* context = context_();
    return preferred_(context) <= kCublas && fp16_reduction_(context) == 0 &&
           bf16_reduction_(context) == 0 && !fp16_sums_(context) && !carveout_(context) &&
           !is_tuned_(tuning_());
  }

 private:
  static constexpr std::int8_t kCublas = 1;  // from at::BlasBackend; 0 is the default

  Settings() {
    const auto torch = { "libtorch_cpu.so", "libtorch_cuda.so" };
    known_ = find(context_, "_ZN2at13globalContextEv", torch) &&
             find(preferred_, "_ZN2at7Context20blasPreferredBackendEv", torch) &&
             find(fp16_reduction_, "_ZNK2at7Context24allowFP16ReductionCuBLASEv", torch) &&
             find(bf16_reduction_, "_ZNK2at7Context24allowBF16ReductionCuBLASEv", torch) &&
             find(fp16_sums_, "_ZNK2at7Context27allowFP16AccumulationCuBLASEv", torch) &&
             find(carveout_, "_ZNK2at7Context24_SMCarveout_EXPERIMENTALEv", torch) &&
             find(tuning_, "_ZN2at4cuda7tunable16getTuningContextEv", torch) &&
             find(is_tuned_, "_ZNK2at4cuda7tunable13TuningContext18IsTunableOpEnabledEv", torch);
  }

  void* (*context_)();
  std::int8_t (*preferred_)(void*);
  std::uint8_t (*fp16_reduction_)(const void*);  // at::CuBLASReductionOption; 0: the default
  std::uint8_t (*bf16_reduction_)(const void*);
  bool (*fp16_sums_)(const void*);
  std::optional<std::int32_t> (*carveout_)(const void*);
  void* (*tuning_)();
  bool (*is_tuned_)(const void*);
  bool known_;
};

// An at::cuda::CUDABlasHandleWithWorkspace of PyTorch 2.15: its cuBLAS handle, with the current
// stream and a workspace for it, as long as the object lives. ATen makes one for each op. Without
// one, cuBLAS has one workspace for all streams of the handle, and products on busy streams spoil
// each other's. The class is not part of the C interface, so it is used by mangled names; the
// handle comes first.
class Scope {
 public:
  ~Scope() { functions().destroy(this); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  static bool exist() { return functions().are_there; }
  static Scope enter() { return functions().make(); }  // written in place: it is never moved

  void* handle() const { return handle_; }

 private:
  struct Functions {
    Functions() {
      const auto torch = { "libtorch_cuda.so" };
      are_there = find(make, "_ZN2at4cuda37getCurrentCUDABlasHandleWithWorkspaceEv", torch) &&
                  find(destroy, "_ZN2at4cuda27CUDABlasHandleWithWorkspaceD1Ev", torch);
    }

    Scope (*make)();
    void (*destroy)(void*);
    bool are_there;
  };

  static const Functions& functions() {
    static const Functions found;
    return found;
  }

  void* handle_;
  std::byte rest_[248];  // 48 bytes in PyTorch 2.15
};

// Calls `use` with PyTorch's cuBLAS handle, set up for the current stream of `gpu`, the current
// device.
template <class Use>
void with_handle(std::int32_t gpu, Use use) {
  enter(gpu);
  if (Scope::exist()) {
    const Scope scope = Scope::enter();
    return use(scope.handle());
  }
  void* handle = nullptr;
  check(torch_get_current_cuda_blas_handle(&handle));
  use(handle);
}

// The arguments of one cuBLAS product. cuBLAS is column-major, so it computes the transposed
// product: `a` is the right matrix and `b` the left one, both transposed by being read
// column-major.
struct Gemm {
  int transposed_a, transposed_b;
  int m, n, k, lda, ldb, ldc;
  const void* a;
  const void* b;
  void* c;
  std::int64_t stride_a, stride_b, stride_c;
  int count;
};

// The cuBLAS that PyTorch has loaded.
class Cublas {
 public:
  static const Cublas& get() {
    static const Cublas cublas;
    return cublas;
  }

  bool is_there() const { return is_there_; }

  // ATen computes float32 in the handle's math mode, but 16-bit types always in the default mode.
  void gemm(void* handle, std::int32_t dtype, const Gemm& g) const {
    int math = kDefaultMath;
    const bool is_narrow = dtype == dtype::float16 || dtype == dtype::bfloat16;
    if (is_narrow) check(get_math_(handle, &math));
    if (math != kDefaultMath) check(set_math_(handle, kDefaultMath));
    const Status status = call(handle, dtype, g);
    if (math != kDefaultMath) check(set_math_(handle, math));
    check(status);
  }

  void batched(void* handle, std::int32_t dtype, const Gemm& g) const {
    check(call_batched(handle, dtype, g));
  }

 private:
  Cublas() {
    const auto names = { "libcublas.so.13", "libcublas.so.12" };
    find(name_, "cublasGetStatusName", names);
    is_there_ = find(get_math_, "cublasGetMathMode", names) &&
                find(set_math_, "cublasSetMathMode", names) &&
                find(sgemm_, "cublasSgemm_v2", names) && find(dgemm_, "cublasDgemm_v2", names) &&
                find(gemm_, "cublasGemmEx", names) &&
                find(sgemm_batched_, "cublasSgemmStridedBatched", names) &&
                find(dgemm_batched_, "cublasDgemmStridedBatched", names) &&
                find(gemm_batched_, "cublasGemmStridedBatchedEx", names);
  }

  Status call(void* handle, std::int32_t dtype, const Gemm& g) const {
    static constexpr float kOne = 1, kZero = 0;
    static constexpr double kOneDouble = 1, kZeroDouble = 0;
    switch (dtype) {
      case dtype::float32:
        return sgemm_(handle, g.transposed_a, g.transposed_b, g.m, g.n, g.k, &kOne, g.a, g.lda, g.b,
            g.ldb, &kZero, g.c, g.ldc);
      case dtype::float64:
        return dgemm_(handle, g.transposed_a, g.transposed_b, g.m, g.n, g.k, &kOneDouble, g.a,
            g.lda, g.b, g.ldb, &kZeroDouble, g.c, g.ldc);
      default: {
        const int type = dtype == dtype::float16 ? kFloat16 : kBfloat16;
        return gemm_(handle, g.transposed_a, g.transposed_b, g.m, g.n, g.k, &kOne, g.a, type, g.lda,
            g.b, type, g.ldb, &kZero, g.c, type, g.ldc, kComputeFloat32, kTensorCores);
      }
    }
  }

  Status call_batched(void* handle, std::int32_t dtype, const Gemm& g) const {
    static constexpr float kOne = 1, kZero = 0;
    static constexpr double kOneDouble = 1, kZeroDouble = 0;
    switch (dtype) {
      case dtype::float32:
        return sgemm_batched_(handle, g.transposed_a, g.transposed_b, g.m, g.n, g.k, &kOne, g.a,
            g.lda, g.stride_a, g.b, g.ldb, g.stride_b, &kZero, g.c, g.ldc, g.stride_c, g.count);
      case dtype::float64:
        return dgemm_batched_(handle, g.transposed_a, g.transposed_b, g.m, g.n, g.k, &kOneDouble,
            g.a, g.lda, g.stride_a, g.b, g.ldb, g.stride_b, &kZeroDouble, g.c, g.ldc, g.stride_c,
            g.count);
      default: {
        const int type = dtype == dtype::float16 ? kFloat16 : kBfloat16;
        return gemm_batched_(handle, g.transposed_a, g.transposed_b, g.m, g.n, g.k, &kOne, g.a,
            type, g.lda, g.stride_a, g.b, type, g.ldb, g.stride_b, &kZero, g.c, type, g.ldc,
            g.stride_c, g.count, kComputeFloat32, kTensorCores);
      }
    }
  }

  void check(Status status) const {
    if (__builtin_expect(status != 0, 0)) refuse(status);
  }

  [[noreturn, gnu::cold]] void refuse(Status status) const {
    const std::string name = name_ == nullptr ? "status " + std::to_string(status) : name_(status);
    throw Error("WIR2160", "cuBLAS returned " + name);
  }

  Status (*get_math_)(void*, int*);
  Status (*set_math_)(void*, int);
  Status (*sgemm_)(void*, int, int, int, int, int, const float*, const void*, int, const void*, int,
      const float*, void*, int);
  Status (*dgemm_)(void*, int, int, int, int, int, const double*, const void*, int, const void*,
      int, const double*, void*, int);
  Status (*gemm_)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*,
      int, int, const void*, void*, int, int, int, int);
  Status (*sgemm_batched_)(void*, int, int, int, int, int, const float*, const void*, int,
      long long, const void*, int, long long, const float*, void*, int, long long, int);
  Status (*dgemm_batched_)(void*, int, int, int, int, int, const double*, const void*, int,
      long long, const void*, int, long long, const double*, void*, int, long long, int);
  Status (*gemm_batched_)(void*, int, int, int, int, int, const void*, const void*, int, int,
      long long, const void*, int, int, long long, const void*, void*, int, int, long long, int,
      int, int);
  const char* (*name_)(Status);
  bool is_there_;
};

// The order in which a matrix is read, and its leading dimension.
struct Reading {
  bool transposed;  // column-major, seen from here
  std::int64_t leading;
};

bool is_contiguous(const Matrix& m) {
  return (m.columns == 1 || m.column_stride == 1) && (m.rows == 1 || m.row_stride == m.columns);
}

std::int64_t at_least_one(std::int64_t size) { return size < 1 ? 1 : size; }

// Returns how ATen reads an operand of a single product, or nullopt if it would copy it first.
std::optional<Reading> read(const Matrix& m) {
  const Reading by_rows{ false, m.row_stride }, by_columns{ true, m.column_stride };
  if (is_contiguous(m)) return by_rows;
  if (m.row_stride == 1 && m.column_stride >= at_least_one(m.rows)) return by_columns;
  if (m.column_stride == 1 && m.row_stride >= at_least_one(m.columns)) return by_rows;
  return std::nullopt;
}

// The same for batched products, where ATen prefers row-major.
std::optional<Reading> read_batched(const Matrix& m) {
  if (m.column_stride == 1 && m.row_stride >= at_least_one(m.columns)) {
    return Reading{ false, m.row_stride };
  }
  if (m.row_stride == 1 && m.column_stride >= at_least_one(m.rows)) {
    return Reading{ true, m.column_stride };
  }
  return std::nullopt;
}

bool fits(std::int64_t size) { return 0 < size && size <= INT32_MAX; }

// Returns the arguments for cuBLAS, or nullopt if it cannot express the product.
std::optional<Gemm> described(const Matrix& out, const Matrix& left, const Matrix& right,
    std::optional<Reading> a, std::optional<Reading> b) {
  const std::int64_t m = out.columns, n = out.rows, k = left.columns;
  if (!a || !b || !is_contiguous(out)) return std::nullopt;
  if (left.rows != n || right.rows != k || right.columns != m) return std::nullopt;
  // With a single row or column the stride is arbitrary, but cuBLAS still checks it.
  if (a->transposed ? m == 1 : k == 1) a->leading = a->transposed ? k : m;
  if (b->transposed ? k == 1 : n == 1) b->leading = b->transposed ? n : k;
  const std::int64_t ldc = n == 1 ? m : out.row_stride;
  for (const std::int64_t size : { m, n, k, a->leading, b->leading, ldc }) {
    if (!fits(size)) return std::nullopt;
  }
  const auto number = [](std::int64_t size) { return static_cast<int>(size); };
  return Gemm{ a->transposed, b->transposed, number(m), number(n), number(k), number(a->leading),
    number(b->leading), number(ldc), right.data, left.data, out.data, right.batch_stride,
    left.batch_stride, out.batch_stride, 1 };
}

// Returns a tensor over memory that another tensor owns.
Tensor tensor_of(
    std::int32_t gpu, std::int32_t dtype, const Matrix& m, std::optional<std::int64_t> count) {
  const std::int64_t size[] = { count.value_or(0), m.rows, m.columns };
  const std::int64_t stride[] = { m.batch_stride, m.row_stride, m.column_stride };
  const int first = count ? 0 : 1;
  AtenTensorHandle made = nullptr;
  check(aoti_torch_create_tensor_from_blob(
      m.data, 3 - first, size + first, stride + first, 0, dtype, device::cuda, gpu, &made));
  return Tensor(made);
}

// Whether ATen would call cuBLAS, in the way of this file.
bool is_direct() {
  return torch_get_current_cuda_blas_handle != nullptr && Cublas::get().is_there() &&
         Settings::get().are_usual();
}

}  // namespace

void mm(std::int32_t gpu, std::int32_t dtype, const Matrix& out, const Matrix& left,
    const Matrix& right) {
  if (is_direct()) {
    if (const auto found = described(out, left, right, read(right), read(left))) {
      with_handle(gpu, [&](void* handle) { Cublas::get().gemm(handle, dtype, *found); });
      return;
    }
  }
  const auto tensor = [&](const Matrix& m) { return tensor_of(gpu, dtype, m, {}); };
  check(aoti_torch_cuda_mm_out(tensor(out), tensor(left), tensor(right)));
}

void bmm(std::int32_t gpu, std::int32_t dtype, std::int64_t count, const Matrix& out,
    const Matrix& left, const Matrix& right) {
  // ATen takes other paths for a batch of one and for outputs with one column.
  const bool is_plain = count > 1 && fits(count) && out.columns > 1 &&
                        out.row_stride == out.columns && out.batch_stride == out.rows * out.columns;
  if (is_plain && is_direct()) {
    if (auto found = described(out, left, right, read_batched(right), read_batched(left))) {
      found->count = static_cast<int>(count);
      with_handle(gpu, [&](void* handle) { Cublas::get().batched(handle, dtype, *found); });
      return;
    }
  }
  const auto tensor = [&](const Matrix& m) { return tensor_of(gpu, dtype, m, count); };
  check(aoti_torch_cuda_bmm_out(tensor(out), tensor(left), tensor(right)));
}

}  // namespace wir
