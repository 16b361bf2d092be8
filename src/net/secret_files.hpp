// Warnings about certificates and password files that can be read.
//
// Thread safety: any thread.
#pragma once
#include <cstdint>
#include <string>

namespace tandem::net {

// "2026-11-25 08:00:00 UTC".
std::string date_text(std::int64_t unix_s);
// Why clients will refuse a certificate that is valid until then; empty: no reason.
std::string expiry_warning(const std::string& certificate, std::int64_t not_after, std::int64_t now_unix_s);
// Says that other users can read the passwords; empty: they cannot, or it is not known.
std::string password_file_warning(const std::string& path);

}  // namespace tandem::net
