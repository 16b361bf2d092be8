#include "index/set_associative/set_index.hpp"
#include "task/code-inl.hpp"

namespace tandem {

const KindCode set_associative_code = code_of<SetAssociativeIndex>();

}  // namespace tandem
