#include "index/slab_list/slab_index.hpp"
#include "task/code-inl.hpp"

namespace tandem {

const KindCode slab_list_code = code_of<SlabListIndex>();

}  // namespace tandem
