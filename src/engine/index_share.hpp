// How large the index may become.
#pragma once

namespace tandem {

// Its share of the memory limit, at most (during a growth the old and the new table coexist).
inline constexpr double index_share_max = 0.5;

}  // namespace tandem
