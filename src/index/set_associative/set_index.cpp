#include "index/set_associative/set_index.hpp"

#include "index/set_associative/set_index-inl.hpp"

namespace tandem {

template class BasicSetIndex<set_ways>;

}  // namespace tandem
