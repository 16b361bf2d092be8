#include "index/cuckoo/cuckoo_index.hpp"
#include "task/code-inl.hpp"

namespace tandem {

const KindCode cuckoo_code = code_of<CuckooIndex>();

}  // namespace tandem
