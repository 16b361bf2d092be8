// The code of the kinds of index that every program has.
#pragma once
#include "task/kind_code.hpp"

namespace tandem {

extern const KindCode cuckoo_code, set_associative_code, hash_tree_code, slab_list_code;

}  // namespace tandem
