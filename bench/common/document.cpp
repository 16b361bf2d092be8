#include "bench/common/document.hpp"

#include <time.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <system_error>

#include <build_commit.hpp>  // the build makes it

#include "bench/common/machine.hpp"

namespace tandem::bench {
namespace {

std::string utc_now() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace

std::string_view build_commit() { return build::commit; }

Json make_document(std::string_view command) {
  return {{"format", document_format}, {"command", command},   {"version", build::version},
          {"commit", build::commit},   {"started", utc_now()}, {"machine", describe_machine()},
          {"notes", Json::array()},    {"runs", Json::array()}};
}

void write_document(const Json& document, const std::string& path) {
  // A command line may hold any bytes; a document holds UTF-8.
  const std::string text = document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
  const bool is_standard_output = path == "-";
  std::FILE* const file = is_standard_output ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr) throw std::system_error(errno, std::generic_category(), "cannot write " + path);
  bool is_written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  const int error = errno;
  if (!is_standard_output && std::fclose(file) != 0) is_written = false;
  if (!is_written) throw std::system_error(error, std::generic_category(), "cannot write " + path);
}

Json read_document(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "r"), &std::fclose);
  if (!file) throw std::runtime_error("cannot read " + path + ": " + std::generic_category().message(errno));
  try {
    Json document = Json::parse(file.get());
    if (document.is_object() && document.value("format", "") == document_format) return document;
  } catch (const Json::exception& error) {
    throw std::runtime_error(path + " is no JSON document: " + error.what());
  }
  throw std::runtime_error(path + " is no document of format " + std::string(document_format));
}

}  // namespace tandem::bench
