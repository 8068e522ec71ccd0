// A C interface to heaps, for programs in Python. See wir/heap.h.
#include "../src/heap.cpp"

#define WIR_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// Always the same server, even if another allocator replaces it later.
wir::heaps1::Server& server() {
  static wir::heaps1::Server* const found = wir::heaps1::server();
  return *found;
}

}  // namespace

WIR_EXPORT void* wir_heap_make() { return server().make(); }
WIR_EXPORT void wir_heap_drop(void* heap) { server().drop(heap); }
WIR_EXPORT std::size_t wir_heap_bytes(void* heap) { return server().bytes(heap); }
WIR_EXPORT void* wir_heap_begin(void* heap) { return server().begin(heap); }
WIR_EXPORT void wir_heap_end(void* heap, void* outer) { server().end(heap, outer); }
WIR_EXPORT void* wir_heap_exchange(void* heap) { return server().exchange(heap); }
