// `config get|set|delete` of the text protocol. Parsed by LineParser::config().
#pragma once
#include "codec/config_store.hpp"
#include "codec/output.hpp"
#include "query/query.hpp"

namespace tandem::codec {

// REQUIRES: reply_of(query) is ReplyKind::config.
void execute_config_line(const Query& query, ConfigStore& store, Output& out);

}  // namespace tandem::codec
