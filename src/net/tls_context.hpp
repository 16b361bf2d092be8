// The server's side of TLS: options, certificates and key as OpenSSL keeps them. A reload is for later sessions; each
// session keeps the context with which it began.
//
// Thread safety: any thread.
#pragma once
#include <openssl/ssl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "net/options.hpp"

namespace tandem::net {

template <auto free_function>
struct OpensslDelete {
  template <class T>
  void operator()(T* object) const noexcept {
    free_function(object);
  }
};
using SslPtr = std::unique_ptr<SSL, OpensslDelete<&SSL_free>>;
using SslContextPtr = std::unique_ptr<SSL_CTX, OpensslDelete<&SSL_CTX_free>>;

class TlsContext {
 public:
  // Loads certificate and key. Throws TlsError with memcached's text.
  explicit TlsContext(const TlsOptions& options);

  // Whether the kernel encrypts: it was asked to, and can.
  bool uses_kernel() const noexcept { return uses_kernel_; }
  // Loads them again. Returns the error, in memcached's text of one line, and nothing has changed then; empty: success.
  std::string reload();
  std::uint64_t seconds_since_refresh() const noexcept;
  // The end of the served certificate's validity, in Unix time.
  std::int64_t not_after() const noexcept { return not_after_.load(std::memory_order_relaxed); }
  // A server's session of the present context; nullptr when memory is short.
  SslPtr new_session() const noexcept;

 private:
  void adopt(SslContextPtr context);

  const TlsOptions options_;
  bool uses_kernel_ = false;
  mutable std::mutex mutex_;  // guards context_
  SslContextPtr context_;
  std::mutex reload_mutex_;  // one reload at a time
  std::atomic<std::chrono::steady_clock::rep> refreshed_at_{0};
  std::atomic<std::int64_t> not_after_{0};
};

// The first error in OpenSSL's queue of this thread, as its ERR_error_string() puts it; the queue is emptied.
std::string take_openssl_error();
// "tlsv1.2" of 2.
std::string_view tls_version_text(unsigned minor);
// OpenSSL's flags of memcached's mode 0 to 3.
int openssl_verify_mode(unsigned mode) noexcept;
// Why the kernel cannot encrypt; empty when it can.
std::string kernel_tls_missing();

}  // namespace tandem::net
