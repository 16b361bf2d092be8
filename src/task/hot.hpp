// From cold to hot (placement/on_device/hot_table.hpp).
#pragma once
#include <string_view>

#include "base/fingerprint.hpp"
#include "heap/item.hpp"

namespace tandem {
struct Context;

namespace task {

// Makes the key hot, if it has a live item and there is a cell for it. candidate: what the caller's epoch has found for
// it. False: it stays as it is. REQUIRES: inside that epoch, no stripe held; devices alone have the index.
bool promote(Context& context, Fingerprint f, std::string_view key, Location candidate) noexcept;

}  // namespace task
}  // namespace tandem
