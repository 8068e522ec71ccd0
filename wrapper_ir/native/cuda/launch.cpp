// Launches GPU kernels, given as machine code, from Python through the CUDA driver API.
//
// A kernel object is called with its grid, a stream and the arguments: tensors for pointers,
// numbers for the rest. It writes the parameters to the stack and calls `cuLaunchKernel` without
// creating tuples or lists. The driver library is opened when the first kernel is loaded, so this
// file compiles without CUDA.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <structmember.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace {

// From cuda.h.
using CUresult = int;
using CUcontext = void*;
using CUmodule = void*;
using CUfunction = void*;
using CUstream = void*;
constexpr CUresult kInvalidContext = 201;
constexpr int kMaxDynamicShared = 8;          // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
constexpr unsigned kSharedByDefault = 49152;  // bytes; more must be requested

struct Driver {
  CUresult (*error_string)(CUresult, const char**);
  CUresult (*get_context)(CUcontext*);
  CUresult (*set_context)(CUcontext);
  CUresult (*load)(CUmodule*, const void*);
  CUresult (*get_function)(CUfunction*, CUmodule, const char*);
  CUresult (*set_attribute)(CUfunction, int, int);
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
      unsigned, CUstream, void**, void**);
  CUresult (*launch_together)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
      unsigned, unsigned, CUstream, void**);
} driver;

void* (*tensor_data)(PyObject*) = nullptr;  // if null, `tensor_method` is called instead
PyObject* tensor_type = nullptr;
PyObject* tensor_method = nullptr;

// Drivers accept 32,764 bytes of parameters, which is this many pointers.
constexpr int kMaxParams = 4095;

struct Kernel {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* name;
  CUfunction function;
  CUcontext context;
  unsigned threads;
  unsigned shared;  // bytes
  bool together;    // its blocks wait for each other, so all have to run at once
  bool switches;    // another device may be the current one
  int num_params;
  int num_unused;     // trailing pointer parameters that the kernel does not use
  PyObject* letters;  // bytes
  const char* types;  // one letter per parameter: O for a pointer, others as in `put`
};

bool open_driver() {
  if (driver.launch != nullptr) return true;
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    PyErr_Format(PyExc_OSError, "the CUDA driver cannot be opened: %s", dlerror());
    return false;
  }
  auto find = [library](auto& target, const char* name) {
    target = reinterpret_cast<std::remove_reference_t<decltype(target)>>(dlsym(library, name));
    if (target == nullptr) PyErr_Format(PyExc_OSError, "the CUDA driver lacks '%s'", name);
    return target != nullptr;
  };
  return find(driver.error_string, "cuGetErrorString") &&
         find(driver.get_context, "cuCtxGetCurrent") &&
         find(driver.set_context, "cuCtxSetCurrent") && find(driver.load, "cuModuleLoadData") &&
         find(driver.get_function, "cuModuleGetFunction") &&
         find(driver.set_attribute, "cuFuncSetAttribute") &&
         find(driver.launch_together, "cuLaunchCooperativeKernel") &&
         find(driver.launch, "cuLaunchKernel");
}

bool succeeded(CUresult result, PyObject* name, const char* what) {
  if (result == 0) return true;
  const char* words = nullptr;
  driver.error_string(result, &words);
  PyErr_Format(PyExc_RuntimeError, "kernel '%U': %s failed: %s", name, what,
      words == nullptr ? "unknown error" : words);
  return false;
}

bool wrong(const Kernel* kernel, Py_ssize_t position, const char* wanted, PyObject* value) {
  if (PyErr_Occurred() != nullptr && !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "%U() argument %zd must be %s, not %.100s", kernel->name, position,
      wanted, Py_TYPE(value)->tp_name);
  return false;
}

bool put_pointer(const Kernel* kernel, Py_ssize_t position, PyObject* value, void* out) {
  void* pointer = nullptr;
  if (value == Py_None) {
    // None stands for a null pointer.
  } else if (PyObject_IsInstance(value, tensor_type) != 1) {
    return wrong(kernel, position, "a tensor", value);
  } else if (tensor_data != nullptr) {
    pointer = tensor_data(value);
  } else {
    PyObject* address = PyObject_CallFunctionObjArgs(tensor_method, value, nullptr);
    if (address == nullptr) return false;
    pointer = PyLong_AsVoidPtr(address);
    Py_DECREF(address);
    if (pointer == nullptr && PyErr_Occurred() != nullptr) return false;
  }
  std::memcpy(out, &pointer, sizeof pointer);
  return true;
}

template <typename T>
bool put_integer(const Kernel* kernel, Py_ssize_t position, PyObject* value, void* out) {
  if (!PyLong_Check(value)) return wrong(kernel, position, "an integer", value);
  const long long wide = PyLong_AsLongLong(value);
  if (wide == -1 && PyErr_Occurred() != nullptr) return false;
  const T narrow = static_cast<T>(wide);
  if (static_cast<long long>(narrow) != wide) {
    PyErr_Format(PyExc_OverflowError, "%U() argument %zd, %lld, does not fit into %zu bits",
        kernel->name, position, wide, sizeof(T) * 8);
    return false;
  }
  std::memcpy(out, &narrow, sizeof narrow);
  return true;
}

bool put_unsigned64(PyObject* value, void* out) {
  const unsigned long long number = PyLong_AsUnsignedLongLong(value);
  if (number == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) return false;
  std::memcpy(out, &number, sizeof number);
  return true;
}

template <typename T>
bool put_real(const Kernel* kernel, Py_ssize_t position, PyObject* value, void* out) {
  const double wide = PyFloat_AsDouble(value);
  if (wide == -1.0 && PyErr_Occurred() != nullptr)
    return wrong(kernel, position, "a number", value);
  const T narrow = static_cast<T>(wide);
  std::memcpy(out, &narrow, sizeof narrow);
  return true;
}

bool put(const Kernel* kernel, Py_ssize_t position, PyObject* value, char type, void* out) {
  switch (type) {
    case 'O':
      return put_pointer(kernel, position, value, out);
    case '?':
      return put_integer<bool>(kernel, position, value, out);
    case 'b':
      return put_integer<std::int8_t>(kernel, position, value, out);
    case 'h':
      return put_integer<std::int16_t>(kernel, position, value, out);
    case 'i':
      return put_integer<std::int32_t>(kernel, position, value, out);
    case 'q':
      return put_integer<std::int64_t>(kernel, position, value, out);
    case 'B':
      return put_integer<std::uint8_t>(kernel, position, value, out);
    case 'H':
      return put_integer<std::uint16_t>(kernel, position, value, out);
    case 'I':
      return put_integer<std::uint32_t>(kernel, position, value, out);
    case 'Q':
      return put_unsigned64(value, out);
    case 'f':
      return put_real<float>(kernel, position, value, out);
    default:
      return put_real<double>(kernel, position, value, out);
  }
}

bool read_grid(const Kernel* kernel, PyObject* grid, unsigned (&out)[3]) {
  if (!PyTuple_Check(grid) || PyTuple_GET_SIZE(grid) < 1 || PyTuple_GET_SIZE(grid) > 3) {
    return wrong(kernel, 1, "a grid, a tuple of one to three sizes", grid);
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(grid); ++i) {
    const long long size = PyLong_AsLongLong(PyTuple_GET_ITEM(grid, i));
    if (size == -1 && PyErr_Occurred() != nullptr) return false;
    if (size < 0 || size > INT32_MAX) {
      PyErr_Format(PyExc_ValueError, "%U() cannot be launched over %R blocks", kernel->name, grid);
      return false;
    }
    out[i] = static_cast<unsigned>(size);
  }
  return true;
}

CUresult launch_once(
    const Kernel* kernel, const unsigned (&grid)[3], CUstream stream, void** params) {
  if (kernel->together) {
    return driver.launch_together(kernel->function, grid[0], grid[1], grid[2], kernel->threads, 1,
        1, kernel->shared, stream, params);
  }
  return driver.launch(kernel->function, grid[0], grid[1], grid[2], kernel->threads, 1, 1,
      kernel->shared, stream, params, nullptr);
}

CUresult launch(const Kernel* kernel, const unsigned (&grid)[3], CUstream stream, void** params) {
  CUcontext before = nullptr;
  if (kernel->switches && driver.get_context(&before) == 0 && before != kernel->context) {
    CUresult result = driver.set_context(kernel->context);
    if (result == 0) result = launch_once(kernel, grid, stream, params);
    driver.set_context(before);
    return result;
  }
  CUresult result = launch_once(kernel, grid, stream, params);
  if (result == kInvalidContext && driver.set_context(kernel->context) == 0) {
    // The thread has not used the GPU yet.
    result = launch_once(kernel, grid, stream, params);
  }
  return result;
}

PyObject* kernel_call(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  const auto* kernel = reinterpret_cast<const Kernel*>(self);
  const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
  if (names != nullptr && PyTuple_GET_SIZE(names) != 0) {
    PyErr_Format(PyExc_TypeError, "%U() takes no keyword arguments", kernel->name);
    return nullptr;
  }
  if (count != kernel->num_params + 2) {
    PyErr_Format(PyExc_TypeError, "%U() takes %d arguments after grid and stream (%zd given)",
        kernel->name, kernel->num_params, count < 2 ? 0 : count - 2);
    return nullptr;
  }
  unsigned grid[3] = { 1, 1, 1 };
  if (!read_grid(kernel, args[0], grid)) return nullptr;
  void* stream = PyLong_AsVoidPtr(args[1]);
  if (stream == nullptr && PyErr_Occurred() != nullptr) return nullptr;
  std::uint64_t values[kMaxParams];
  void* params[kMaxParams];
  for (int i = 0; i < kernel->num_params; ++i) {
    if (!put(kernel, i + 3, args[i + 2], kernel->types[i], &values[i])) return nullptr;
    params[i] = &values[i];
  }
  for (int i = kernel->num_params; i < kernel->num_params + kernel->num_unused; ++i) {
    values[i] = 0;
    params[i] = &values[i];
  }
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0) Py_RETURN_NONE;  // nothing to do
  if (!succeeded(launch(kernel, grid, stream, params), kernel->name, "its launch")) return nullptr;
  Py_RETURN_NONE;
}

void kernel_dealloc(PyObject* self) {
  // The code stays loaded: a pending launch may still run it.
  Py_XDECREF(reinterpret_cast<Kernel*>(self)->name);
  Py_XDECREF(reinterpret_cast<Kernel*>(self)->letters);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* kernel_repr(PyObject* self) {
  return PyUnicode_FromFormat("<kernel '%U'>", reinterpret_cast<Kernel*>(self)->name);
}

PyMemberDef kernel_members[] = {
  { "__name__", T_OBJECT_EX, offsetof(Kernel, name), READONLY, nullptr },
  { "__vectorcalloffset__", T_PYSSIZET, offsetof(Kernel, vectorcall), READONLY, nullptr },
  { nullptr, 0, 0, 0, nullptr },
};

PyType_Slot kernel_slots[] = {
  { Py_tp_dealloc, reinterpret_cast<void*>(kernel_dealloc) },
  { Py_tp_repr, reinterpret_cast<void*>(kernel_repr) },
  { Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call) },
  { Py_tp_members, kernel_members },
  { 0, nullptr },
};

PyType_Spec kernel_spec = { "wir_launch.Kernel", sizeof(Kernel), 0,
  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, kernel_slots };
PyTypeObject* kernel_type = nullptr;

// load(name, code, symbol, types, unused, threads, shared, together, switches) -> kernel
PyObject* load(PyObject*, PyObject* args) {
  PyObject* name = nullptr;
  const char *code = nullptr, *symbol = nullptr, *types = nullptr;
  Py_ssize_t code_size = 0, num_types = 0;
  int unused = 0, together = 0, switches = 0;
  unsigned threads = 0, shared = 0;
  if (!PyArg_ParseTuple(args, "Uy#ss#iIIpp", &name, &code, &code_size, &symbol, &types, &num_types,
          &unused, &threads, &shared, &together, &switches)) {
    return nullptr;
  }
  if (num_types + unused > kMaxParams) {
    PyErr_Format(PyExc_ValueError, "kernel '%U' has more than %d parameters", name, kMaxParams);
    return nullptr;
  }
  if (!open_driver()) return nullptr;
  auto* kernel = reinterpret_cast<Kernel*>(kernel_type->tp_alloc(kernel_type, 0));
  if (kernel == nullptr) return nullptr;
  kernel->vectorcall = kernel_call;
  kernel->name = Py_NewRef(name);
  kernel->threads = threads;
  kernel->shared = shared;
  kernel->together = together != 0;
  kernel->switches = switches != 0;
  kernel->num_params = static_cast<int>(num_types);
  kernel->num_unused = unused;
  kernel->letters = PyBytes_FromStringAndSize(types, num_types);
  if (kernel->letters == nullptr) {
    Py_DECREF(kernel);
    return nullptr;
  }
  kernel->types = PyBytes_AS_STRING(kernel->letters);
  CUmodule module = nullptr;
  const bool loaded =
      succeeded(driver.get_context(&kernel->context), name, "finding the device") &&
      succeeded(driver.load(&module, code), name, "loading its code") &&
      succeeded(driver.get_function(&kernel->function, module, symbol), name, "finding it") &&
      (shared <= kSharedByDefault || succeeded(driver.set_attribute(kernel->function,
                                                   kMaxDynamicShared, static_cast<int>(shared)),
                                         name, "asking for shared memory"));
  if (!loaded) {
    Py_DECREF(kernel);
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(kernel);
}

// setup(address of a function that returns a tensor's data pointer, or 0; torch.Tensor;
// torch.Tensor.data_ptr)
PyObject* setup(PyObject*, PyObject* args) {
  unsigned long long address = 0;
  PyObject *type = nullptr, *method = nullptr;
  if (!PyArg_ParseTuple(args, "KOO", &address, &type, &method)) return nullptr;
  tensor_data = reinterpret_cast<void* (*)(PyObject*)>(address);
  Py_XSETREF(tensor_type, Py_NewRef(type));
  Py_XSETREF(tensor_method, Py_NewRef(method));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
  { "load", load, METH_VARARGS, "Load a kernel into the current context." },
  { "setup", setup, METH_VARARGS, "Say what a tensor is." },
  { nullptr, nullptr, 0, nullptr },
};

PyModuleDef definition = { PyModuleDef_HEAD_INIT, "wir_launch", nullptr, -1, functions, nullptr,
  nullptr, nullptr, nullptr };

}  // namespace

PyMODINIT_FUNC PyInit_wir_launch() {
  kernel_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&kernel_spec));
  return kernel_type == nullptr ? nullptr : PyModule_Create(&definition);
}
