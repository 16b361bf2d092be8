#include "codec/config_store.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace tandem {
namespace {

// Kept for what the server itself will publish.
constexpr std::string_view own_prefix = "tandem:";
constexpr std::size_t host_bytes_max = 253;  // of a name in DNS

// <host>|<ip>|<port>
bool is_node(std::string_view text) {
  const std::size_t first = text.find('|'), last = text.rfind('|');
  std::uint64_t port = 0;
  return first != std::string_view::npos && first != last && is_list_host(text.substr(0, first)) &&
         is_list_address(text.substr(first + 1, last - first - 1)) &&
         read_list_number(text.substr(last + 1), 1, 65535, port);
}

// Why `value` is no list of nodes; empty: it is one, of this version.
std::string read_cluster(std::string_view value, std::uint64_t& version) {
  const std::size_t first_line = value.find('\n');
  if (!read_list_number(value.substr(0, first_line), 1, ConfigStore::version_max, version))
    return "cluster begins with a line that has its version, a number from 1 to 2^53-1";
  if (value.back() != '\n' || std::ranges::count(value, '\n') != 2)
    return "cluster has two lines, each with a line feed behind it: the version and the nodes";
  std::string_view nodes = value.substr(first_line + 1);
  nodes.remove_suffix(1);
  for (std::size_t number = 1; !nodes.empty() || number == 1; ++number) {
    const std::size_t end = std::min(nodes.find(' '), nodes.size());
    if (!is_node(nodes.substr(0, end)) || end + 1 == nodes.size())
      return "cluster: node " + std::to_string(number + (end + 1 == nodes.size() ? 1 : 0)) +
             " is not <host in lower case>|<ip>|<port>, with one space between nodes";
    nodes.remove_prefix(std::min(end + 1, nodes.size()));
  }
  return {};
}

}  // namespace

bool read_list_number(std::string_view text, std::uint64_t least, std::uint64_t most, std::uint64_t& to) noexcept {
  if (text.empty() || text.front() == '0') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc{} && end == text.data() + text.size() && to >= least && to <= most;
}

bool is_list_host(std::string_view text) noexcept {
  const auto is_alphanumeric = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= host_bytes_max && is_alphanumeric(text.front()) &&
         text.find("..") == std::string_view::npos &&
         std::ranges::all_of(text, [&](char c) { return is_alphanumeric(c) || c == '.' || c == '-'; });
}

bool is_list_address(std::string_view text) {
  if (text.find('\0') != std::string_view::npos) return false;  // inet_pton() would end there
  const std::string address(text);
  in6_addr parsed{};
  return inet_pton(AF_INET, address.c_str(), &parsed) == 1 || inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

std::string ConfigStore::set(std::string_view key, std::uint32_t flags, std::string_view value) {
  if (key.starts_with(own_prefix)) return "keys that begin with tandem: are the server's own";
  const bool is_cluster = key == cluster;
  std::uint64_t version = 0;
  if (is_cluster) {
    if (std::string error = read_cluster(value, version); !error.empty()) return error;
  }
  Value made{flags, std::string(value)};
  const std::lock_guard lock(mutex_);
  const auto place = values_.find(key);
  if (place == values_.end()) {
    if (values_.size() == values_max) return "has " + std::to_string(values_max) + " keys at most: delete one first";
    values_.emplace(key, std::move(made));
  } else {
    const bool is_same = place->second.bytes == value && place->second.flags == flags;
    if (is_cluster && version <= version_ && !is_same)
      return "cluster has version " + std::to_string(version_) + ": a change needs a greater one";
    place->second = std::move(made);
  }
  if (is_cluster) version_ = version;
  return {};
}

bool ConfigStore::remove(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto place = values_.find(key);
  if (place == values_.end()) return false;
  if (place->first == cluster) version_ = 0;
  values_.erase(place);
  return true;
}

std::vector<std::string> ConfigStore::keys() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [key, value] : values_) all.push_back(key);
  return all;
}

std::size_t ConfigStore::size() const {
  const std::lock_guard lock(mutex_);
  return values_.size();
}

std::uint64_t ConfigStore::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

}  // namespace tandem
