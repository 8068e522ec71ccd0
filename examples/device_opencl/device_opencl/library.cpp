// Streams of the device, and its kernels, by way of the OpenCL that pyopencl has loaded.
#include "device_opencl.h"

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

extern "C" {  // Of CL/cl.h, which pyopencl does not bring.
void* clCreateProgramWithSource(void* context, unsigned, const char**, const size_t*, int* error);
int clBuildProgram(void* program, unsigned, void* const*, const char* options, void*, void*);
void* clCreateKernel(void* program, const char* name, int* error);
int clSetKernelArg(void* kernel, unsigned at, size_t size, const void* value);
int clGetCommandQueueInfo(void* queue, unsigned what, size_t size, void* value, size_t*);
int clEnqueueNDRangeKernel(void* queue, void* kernel, unsigned dims, const size_t*, const size_t*,
                           const size_t*, unsigned count, void* const* wait_for, void** event);
void* clCreateSubBuffer(void* buffer, uint64_t flags, unsigned type, const size_t*, int* error);
int clEnqueueMarkerWithWaitList(void* queue, unsigned count, void* const* wait_for, void** event);
int clWaitForEvents(unsigned count, void* const* events), clFinish(void* queue);
int clFlush(void* queue), clRetainEvent(void* event), clReleaseEvent(void* event);
int clRetainMemObject(void* buffer), clReleaseMemObject(void* buffer);
}

// The command that the next one waits for.
struct device_opencl::Stream { void* last = nullptr; };

namespace {

using device_opencl::Stream;
struct Buffer { size_t size; void* memory; };
std::mutex lock;
std::map<uintptr_t, Buffer> buffers;  // by the addresses that torch is told
void* (*find_queue)();  // Python's
thread_local Stream own, *current = &own;

// To be asked for first with no lock held: Python has one of its own.
void* queue() {
  static std::atomic<void*> found = nullptr;
  if (found == nullptr) found = find_queue();
  return found;
}

void check(int error, const char* what) {
  if (error == 0) return;
  throw std::runtime_error(std::string(what) + ": error " + std::to_string(error) + " of OpenCL");
}

// Memory from an address to the end of its buffer, for the caller to release.
void* region(uintptr_t address) {
  const auto after = buffers.upper_bound(address);
  if (address == 0 || after == buffers.begin()) return nullptr;  // a tensor without elements
  const auto& [begin, buffer] = *std::prev(after);
  const size_t start = address - begin, part[] = {start, buffer.size - start};
  if (start == 0) return check(clRetainMemObject(buffer.memory), "keeping memory"), buffer.memory;
  if (start % 128 != 0) throw std::runtime_error("a kernel's tensor begins " +
      std::to_string(start) + " bytes into its buffer, not 128 * n");
  int error = 0;
  void* made = clCreateSubBuffer(buffer.memory, 0, 0x1220, part, &error);
  return check(error, "a part of a buffer"), made;
}

}  // namespace

// What Python calls, and the header.
extern "C" {
void opencl_begin(void* (*found)()) { find_queue = found; }
void opencl_add(uintptr_t address, size_t size, void* memory) {
  const std::lock_guard guard(lock);
  buffers[address] = {size, memory};
}
void opencl_remove(uintptr_t address) {
  const std::lock_guard guard(lock);
  buffers.erase(address);
}
Stream* opencl_new() { return new Stream; }
Stream* opencl_current() { return current; }
Stream* opencl_enter(Stream* stream) { return std::exchange(current, stream); }
void* opencl_last(Stream* stream) { return stream->last; }
void opencl_follow(Stream* stream, void* command) {
  if (command != nullptr) clRetainEvent(command);
  if (stream->last != nullptr) clReleaseEvent(stream->last);
  stream->last = command;
}
void opencl_drop(Stream* stream) {
  if (stream != nullptr) opencl_follow(stream, nullptr);
  delete stream;
}
void opencl_wait(Stream* stream, void* command) {
  if (command == nullptr) return;
  void *both[] = {command, stream->last}, *marker = nullptr;
  check(clEnqueueMarkerWithWaitList(queue(), stream->last ? 2 : 1, both, &marker), "a wait");
  opencl_follow(stream, marker);
  check(clReleaseEvent(marker) | clFlush(queue()), "a wait");
}
void opencl_synchronize(void* command) {
  check(command ? clWaitForEvents(1, &command) : clFinish(queue()), "waiting");
}
}

void* device_opencl::compile(const char* code, const char* entry, const std::string& options) {
  void* context = nullptr;
  int error = 0;
  check(clGetCommandQueueInfo(queue(), 0x1090, sizeof context, &context, nullptr), "a queue");
  void* program = clCreateProgramWithSource(context, 1, &code, nullptr, &error);
  check(error, entry);
  check(clBuildProgram(program, 0, nullptr, options.c_str(), nullptr, nullptr), entry);
  void* kernel = clCreateKernel(program, entry, &error);
  return check(error, entry), kernel;
}

void device_opencl::launch(void* kernel, std::initializer_list<std::int64_t> grid,
                           const std::int64_t* group, std::initializer_list<Argument> arguments) {
  size_t whole[3], local[3];
  for (int d = 0; d < 3; ++d) {
    local[d] = group[d] == 0 ? 1 : group[d];
    if ((whole[d] = grid.begin()[d] * local[d]) == 0) return;
  }
  void* const to = queue();
  const std::lock_guard guard(lock);  // a kernel holds its arguments until it is enqueued
  std::vector<std::unique_ptr<void, decltype(&clReleaseMemObject)>> held;
  for (unsigned n = 0; const Argument& each : arguments) {
    const void* value = each.value;
    void* memory = nullptr;
    if (each.is_memory) {
      held.emplace_back(memory = region(*static_cast<const uintptr_t*>(value)), &clReleaseMemObject);
      value = &memory;
    }
    check(clSetKernelArg(kernel, n++, each.size, value), "an argument");
  }
  void* done = nullptr;
  check(clEnqueueNDRangeKernel(to, kernel, 3, nullptr, whole, group[0] ? local : nullptr,
      current->last != nullptr, current->last ? &current->last : nullptr, &done), "a launch");
  opencl_follow(current, done);
  check(clReleaseEvent(done) | clFlush(to), "a launch");
}
