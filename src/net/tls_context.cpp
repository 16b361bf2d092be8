#include "net/tls_context.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

#include "net/counters.hpp"
#include "net/fd.hpp"
#include "net/limits.hpp"
#include "net/log.hpp"

namespace tandem::net {
namespace {

constexpr std::string_view session_id_context = "tandem";

// Otherwise OpenSSL would ask for a key's passphrase on the terminal, in any thread.
int no_passphrase(char* /*to*/, int /*bytes*/, int /*writes*/, void* /*data*/) { return -1; }

int count_session(SSL* ssl, SSL_SESSION* /*session*/) {
  static_cast<NetCounters*>(SSL_get_app_data(ssl))->ssl_new_sessions.add();
  return 0;  // OpenSSL keeps its reference
}

[[noreturn]] void fail(std::string_view what, const std::string& file) {
  throw TlsError(fmt::format("{}: {} : {}", what, file, take_openssl_error()));
}

void load_files(SSL_CTX* context, const TlsOptions& o) {
  const std::string& key = o.key.empty() ? o.certificate : o.key;
  if (SSL_CTX_use_certificate_chain_file(context, o.certificate.c_str()) != 1)
    fail("Error loading the certificate chain", o.certificate);
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), static_cast<int>(o.key_format)) != 1)
    fail("Error loading the key", key);
  if (SSL_CTX_check_private_key(context) != 1)
    throw TlsError(fmt::format("Error validating the certificate: {}", take_openssl_error()));
  if (o.ca.empty()) return;
  if (SSL_CTX_load_verify_locations(context, o.ca.c_str(), nullptr) != 1)
    fail("Error loading the CA certificate", o.ca);
  STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(o.ca.c_str());
  if (names == nullptr) fail("Error loading the CA certificate", o.ca);
  SSL_CTX_set_client_CA_list(context, names);
}

template <auto free_fetched, class T>
bool is_there(T* fetched) {
  free_fetched(fetched);
  return fetched != nullptr && ERR_peek_error() == 0;
}

// OpenSSL makes the methods of a kind (all KDFs, all MACs, ...) once, when the first of them is needed. A method that
// it had no memory for then is never made, and every handshake would fail. So they are loaded before the first client.
void load_algorithms() {
  ERR_clear_error();
  // Fetching from a library that could not start, for lack of memory, would dereference a null pointer.
  if (OPENSSL_init_ssl(0, nullptr) != 1) throw TlsError("Error starting TLS: OpenSSL has not started");
  const bool all = is_there<EVP_MD_free>(EVP_MD_fetch(nullptr, "SHA256", nullptr)) &&
                   is_there<EVP_CIPHER_free>(EVP_CIPHER_fetch(nullptr, "AES-128-GCM", nullptr)) &&
                   is_there<EVP_RAND_free>(EVP_RAND_fetch(nullptr, "CTR-DRBG", nullptr)) &&
                   is_there<EVP_MAC_free>(EVP_MAC_fetch(nullptr, "HMAC", nullptr)) &&
                   is_there<EVP_KDF_free>(EVP_KDF_fetch(nullptr, "HKDF", nullptr)) &&
                   is_there<EVP_KEYMGMT_free>(EVP_KEYMGMT_fetch(nullptr, "RSA", nullptr)) &&
                   is_there<EVP_KEYEXCH_free>(EVP_KEYEXCH_fetch(nullptr, "ECDH", nullptr)) &&
                   is_there<EVP_SIGNATURE_free>(EVP_SIGNATURE_fetch(nullptr, "RSA", nullptr)) &&
                   is_there<EVP_ASYM_CIPHER_free>(EVP_ASYM_CIPHER_fetch(nullptr, "RSA", nullptr)) &&
                   is_there<EVP_KEM_free>(EVP_KEM_fetch(nullptr, "RSA", nullptr));
  if (!all) throw TlsError(fmt::format("Error starting TLS: {}", take_openssl_error()));
}

// Of the server's own certificate, in Unix time.
std::int64_t end_of_validity(const SSL_CTX* context) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(context)), &end) != 1)
    throw TlsError("Error loading the certificate: it has no end of its validity");
  return timegm(&end);
}

SslContextPtr make_context(const TlsOptions& o, bool uses_kernel) {
  ERR_clear_error();
  SslContextPtr context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) throw TlsError(fmt::format("Error starting TLS: {}", take_openssl_error()));
  SSL_CTX* const c = context.get();
  SSL_CTX_set_min_proto_version(c, static_cast<int>(TLS1_VERSION + o.min_version));
  SSL_CTX_set_default_passwd_cb(c, &no_passphrase);
  load_files(c, o);
  SSL_CTX_set_verify(c, openssl_verify_mode(o.verify_mode), nullptr);
  SSL_CTX_set_max_cert_list(c, tls_client_chain_bytes_max);
  if (!o.ciphers.empty() && SSL_CTX_set_cipher_list(c, o.ciphers.c_str()) != 1) {
    ERR_clear_error();
    throw TlsError(fmt::format("Error setting the provided cipher(s): {}", o.ciphers));
  }
  // A client may close without a close_notify: an incomplete request is dropped in either case.
  SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  if (o.session_cache) {
    SSL_CTX_sess_set_new_cb(c, &count_session);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_SERVER);
    SSL_CTX_sess_set_cache_size(c, tls_sessions_cached_max);
    SSL_CTX_set_session_id_context(c, reinterpret_cast<const unsigned char*>(session_id_context.data()),
                                   static_cast<unsigned>(session_id_context.size()));
  } else {
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(c, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(c, 0);
  }
  if (uses_kernel) {
    SSL_CTX_set_options(c, SSL_OP_ENABLE_KTLS);
  } else {
    SSL_CTX_set_read_ahead(c, 1);  // a record in one system call, not its header in one and its body in another
  }
  return context;
}

}  // namespace

std::string take_openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

std::string_view tls_version_text(unsigned minor) {
  constexpr std::string_view names[] = {"tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3"};
  return minor < std::size(names) ? names[minor] : "unknown";
}

int openssl_verify_mode(unsigned mode) noexcept {
  constexpr int require = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
  constexpr int modes[] = {SSL_VERIFY_NONE, SSL_VERIFY_PEER, require, require | SSL_VERIFY_CLIENT_ONCE};
  return modes[mode < std::size(modes) ? mode : 2];
}

std::string kernel_tls_missing() {
#if defined(OPENSSL_NO_KTLS) || !defined(TCP_ULP)
  return "this OpenSSL was built without it";
#else
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd && setsockopt(fd.get(), IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") == 0) return {};
  // A kernel with support answers that the socket is not connected.
  if (errno == ENOTCONN) return {};
  return errno == ENOENT ? "the kernel has no module tls" : std::generic_category().message(errno);
#endif
}

TlsContext::TlsContext(const TlsOptions& options) : options_(options) {
  load_algorithms();
  if (options_.kernel_tls) {
    const std::string why = kernel_tls_missing();
    uses_kernel_ = why.empty();
    if (!uses_kernel_) log().warn("kernel TLS: {}; the process encrypts", why);
  }
  adopt(make_context(options_, uses_kernel_));
}

void TlsContext::adopt(SslContextPtr context) {
  not_after_.store(end_of_validity(context.get()), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    context_.swap(context);
  }
  refreshed_at_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

std::string TlsContext::reload() {
  const std::lock_guard lock(reload_mutex_);
  try {
    adopt(make_context(options_, uses_kernel_));
    return {};
  } catch (const TlsError& error) {
    return error.what();
  }
}

std::uint64_t TlsContext::seconds_since_refresh() const noexcept {
  const std::chrono::steady_clock::duration then(refreshed_at_.load(std::memory_order_relaxed));
  const auto since = std::chrono::steady_clock::now().time_since_epoch() - then;
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(since).count());
}

SslPtr TlsContext::new_session() const noexcept {
  const std::lock_guard lock(mutex_);
  return SslPtr(SSL_new(context_.get()));
}

}  // namespace tandem::net
