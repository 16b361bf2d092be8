// The parts of the table of options, and helpers to write them.
#pragma once
#include <array>
#include <span>

#include "options/options.hpp"

namespace tandem::cli {

// In the order of help and docs.
std::span<const Option> network_options();  // and TLS, authentication
std::span<const Option> store_options();
std::span<const Option> process_options();  // and administration, and memcached's own

namespace table {

template <auto Part, auto Member>
Field field(Settings& settings) {
  return &((settings.*Part).*Member);
}
template <auto Member>
constexpr auto server = &field<&Settings::server, Member>;
template <auto Member>
Field tls_field(Settings& settings) {
  return &(settings.server.tls.*Member);
}
template <auto Member>
constexpr auto tls = &tls_field<Member>;
template <auto Member>
constexpr auto engine = &field<&Settings::engine, Member>;
template <auto Member>
constexpr auto gpu = &field<&Settings::gpu, Member>;
template <auto Member>
constexpr auto process = &field<&Settings::process, Member>;

constexpr double kib = 1024;
constexpr double mib = 1024 * kib;
constexpr double gib = 1024 * mib;
constexpr double u32_max = 4294967295.0;

}  // namespace table
}  // namespace tandem::cli
