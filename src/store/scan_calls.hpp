// KeyRange reads of the embedded store.
#pragma once
#include <cstddef>

#include "tandem/store.hpp"
#include "task/context.hpp"

namespace tandem {

// Session::scan(). Thread safety: the context's thread.
Scanned scan_copied(Context& context, const KeyRange& range, std::size_t limit,
                    void (*visit)(void* visitor, const ScannedItem& item), void* visitor);

}  // namespace tandem
