// The output of every benchmark: one JSON document (docs/bench-format.md) with what ran, where, and the results.
#pragma once
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tandem::bench {

using Json = nlohmann::ordered_json;

inline constexpr std::string_view document_format = "tandem-bench/1";

// The commit that this program was built from, 12 digits, and "+" if the tree was modified; or "unknown".
std::string_view build_commit();

// Command line, version, commit, start time and machine of this process, without runs.
Json make_document(std::string_view command);

// Writes the document to `path` ("-": standard output). Throws std::system_error.
void write_document(const Json& document, const std::string& path);
// Throws std::runtime_error when it cannot be read or is not a benchmark document.
Json read_document(const std::string& path);

}  // namespace tandem::bench
