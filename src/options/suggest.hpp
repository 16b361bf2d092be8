// Suggests the name that a user probably meant.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

// The name nearest to `wanted`, if near enough: at most a third of its letters (one at least, three at most) inserted,
// deleted, replaced or exchanged with their neighbour; or `wanted` is a prefix of exactly one name. Empty: none is. Of
// equally near names, the first. Source: optimal string alignment distance (Damerau 1964, with adjacent exchanges).
std::string_view nearest(std::string_view wanted, std::span<const std::string_view> names);

// `; did you mean PREFIXname?`, or nothing.
std::string did_you_mean(std::string_view wanted, std::span<const std::string_view> names,
                         std::string_view prefix = "");

// The names of `tandem serve`'s options, and of memcached's extended ones.
std::vector<std::string_view> option_names();
std::vector<std::string_view> extended_option_names();

}  // namespace tandem::cli
