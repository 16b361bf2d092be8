// config_get, config_set, config_delete and config_list of the binary protocol.
#pragma once
#include "codec/config_store.hpp"
#include "codec/output.hpp"
#include "query/query.hpp"

namespace tandem::codec {

// REQUIRES: reply_of(query) is ReplyKind::binary_config.
void execute_config_packet(const Query& query, ConfigStore& store, Output& out);

}  // namespace tandem::codec
