#include "base/hash.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>

namespace planish {
namespace {

using Sha256 = std::array<unsigned char, 32>;

std::string hex_of(const Sha256& digest) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (unsigned char byte : digest) {
    text.push_back(hex[byte >> 4U]);
    text.push_back(hex[byte & 15U]);
  }
  return text;
}

/// Fails only when the library itself is broken: there is nothing sensible to go on with.
void must(bool done) {
  if (!done) std::abort();
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  Sha256 digest{};
  unsigned int length = 0;
  must(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) == 1);
  return hex_of(digest);
}

struct Digest::Context {
  EVP_MD_CTX* made = EVP_MD_CTX_new();
};

Digest::Digest() : context_(std::make_unique<Context>()) {
  must(context_->made != nullptr && EVP_DigestInit_ex(context_->made, EVP_sha256(), nullptr) == 1);
}

Digest::~Digest() {
  EVP_MD_CTX_free(context_->made);
}

void Digest::add(std::string_view bytes) {
  must(EVP_DigestUpdate(context_->made, bytes.data(), bytes.size()) == 1);
}

std::string Digest::hex() {
  Sha256 digest{};
  unsigned int length = 0;
  must(EVP_DigestFinal_ex(context_->made, digest.data(), &length) == 1);
  return hex_of(digest);
}

}  // namespace planish
