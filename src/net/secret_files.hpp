// What may be wrong with certificates and password files that can be read all the same.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <string>

namespace tandem::net {

// "2026-11-25 08:00:00 UTC".
std::string date_text(std::int64_t unix_s);
// Why clients will refuse a certificate whose validity ends then; empty: they need not.
std::string expiry_warning(const std::string& certificate, std::int64_t not_after, std::int64_t now_unix_s);
// That other users can read the passwords; empty: they cannot, or it cannot be told.
std::string password_file_warning(const std::string& path);

}  // namespace tandem::net
