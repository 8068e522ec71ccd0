#include <wir/pieces.h>

#include "graphs.h"
#include "modes.h"

namespace wir {

Piece::Piece(const ProgramInfo& info)
    : info_(info), graphs_(wir_make_graphs(info)), runner_(graphs_->of_runner()) {}

Piece::~Piece() = default;

void Piece::run(void* state, Call& call, const Slot* inputs, Slot* outputs) {
  if (runner_ != nullptr) return runner_->run({call, inputs, outputs, nullptr, state, true});
  graphs_->ran();
  const runtime::NoGrad no_grad;
  info_.run(state, call, inputs, outputs);
}

std::size_t Piece::kept_bytes() const { return runner_ == nullptr ? 0 : runner_->kept_bytes(); }

}  // namespace wir
