// The control commands' part for TLS: its statistics and settings, and refresh_certs.
#include "net/limits.hpp"
#include "net/tls_context.hpp"
#include "operate/control.hpp"
#include "operate/stat_line.hpp"

namespace tandem::net {
namespace {

std::string_view text_or(const std::string& text, std::string_view none) { return text.empty() ? none : text; }

}  // namespace

std::string Control::refresh_certificates() {
  return state_.tls == nullptr ? "Error TLS not enabled" : state_.tls->reload();
}

void Control::tls(StatSink& sink, const Totals& now) const {
  if (state_.tls == nullptr) return;
  if (state_.options.tls.session_cache) put(sink, "ssl_new_sessions", now.net.ssl_new_sessions);
  put(sink, "ssl_handshake_errors", now.net.ssl_handshake_errors);
  put(sink, "ssl_proto_errors", now.net.ssl_proto_errors);
  put(sink, "time_since_server_cert_refresh", state_.tls->seconds_since_refresh());
}

void Control::tls_settings(StatSink& sink) const {
  const TlsOptions& o = state_.options.tls;
  put(sink, "ssl_enabled", yes_no(o.enabled));
  put(sink, "ssl_chain_cert", text_or(o.certificate, "(null)"));
  put(sink, "ssl_key", text_or(o.key, "(null)"));
  put(sink, "ssl_verify_mode", openssl_verify_mode(o.verify_mode));
  put(sink, "ssl_keyformat", o.key_format);
  put(sink, "ssl_ciphers", text_or(o.ciphers, "NULL"));
  put(sink, "ssl_ca_cert", text_or(o.ca, "NULL"));
  put(sink, "ssl_wbuf_size", tls_record_bytes_max);
  put(sink, "ssl_session_cache", yes_no(o.session_cache));
  put(sink, "ssl_kernel_tls", yes_no(o.kernel_tls));
  put(sink, "ssl_min_version", tls_version_text(o.min_version));
}

}  // namespace tandem::net
