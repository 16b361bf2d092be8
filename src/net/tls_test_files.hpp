// Certificates made for one test. Without GoogleTest, for fuzz targets too.
#pragma once
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "net/options.hpp"
#include "net/tls_context.hpp"

namespace tandem::net::test {

using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslDelete<&EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpensslDelete<&X509_free>>;

struct Identity {
  KeyPtr key;
  CertificatePtr certificate;
};

// A new P-256 key with a certificate, signed by `issuer` or by itself.
inline Identity make_identity(const std::string& name, const Identity* issuer = nullptr) {
  Identity made{KeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")), CertificatePtr(X509_new())};
  X509* x = made.certificate.get();
  X509_set_version(x, X509_VERSION_3);
  static long serial = 0;
  ASN1_INTEGER_set(X509_get_serialNumber(x), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), 24L * 3600);
  X509_set_pubkey(x, made.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(x,
                       issuer != nullptr ? X509_get_subject_name(issuer->certificate.get()) : X509_get_subject_name(x));
  if (issuer == nullptr) {
    X509_EXTENSION* is_ca = X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
    X509_add_ext(x, is_ca, -1);
    X509_EXTENSION_free(is_ca);
  }
  X509_sign(x, issuer != nullptr ? issuer->key.get() : made.key.get(), EVP_sha256());
  return made;
}

// A folder of its own, removed at the end.
class TlsFiles {
 public:
  TlsFiles() {
    std::string path = std::filesystem::temp_directory_path() / "tandem_tls_XXXXXX";
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = path;
  }
  TlsFiles(const TlsFiles&) = delete;
  TlsFiles& operator=(const TlsFiles&) = delete;
  ~TlsFiles() { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    const FilePtr file = open(name);
    std::fwrite(text.data(), 1, text.size(), file.get());
    return path(name);
  }
  std::string write(const std::string& name, const X509* certificate) const {
    PEM_write_X509(open(name).get(), certificate);
    return path(name);
  }
  std::string write(const std::string& name, const EVP_PKEY* key) const {
    PEM_write_PrivateKey(open(name).get(), key, nullptr, nullptr, 0, nullptr, nullptr);
    return path(name);
  }
  // Options of a server with this identity.
  TlsOptions serve(const Identity& identity) const {
    TlsOptions options;
    options.enabled = true;
    options.certificate = write("server.pem", identity.certificate.get());
    options.key = write("server.key", identity.key.get());
    return options;
  }

 private:
  using FilePtr = std::unique_ptr<std::FILE, OpensslDelete<&std::fclose>>;
  FilePtr open(const std::string& name) const { return FilePtr(std::fopen(path(name).c_str(), "wb")); }

  std::filesystem::path folder_;
};

}  // namespace tandem::net::test
