// The code of one kind of index. Included once, where the kind's code is compiled.
#pragma once
#include "index/index_kind.hpp"
#include "task/codes.hpp"
#include "task/evict-inl.hpp"
#include "task/execute-inl.hpp"
#include "task/rescue-inl.hpp"
#include "task/store_plain-inl.hpp"

namespace tandem {

// The code that a store with this kind of index runs.
template <IndexKind I>
constexpr KindCode code_of() noexcept {
  return {.kind = I::kind,
          .execute = task::execute<I>,
          .store_plain = task::store_plain<I>,
          .unlink = task::unlink<I>,
          .rescue = task::rescue<I>,
          .move_to = task::move_to<I>};
}

}  // namespace tandem
