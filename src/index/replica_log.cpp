#include "index/replica_log-inl.hpp"

namespace tandem {

template class BasicReplicaLog<ReplicaLogRules>;

}  // namespace tandem
