#include "program/checked.h"

#include <mutex>

#include "base/hash.h"

namespace planish::program {

struct Checked::Held {
  Program program;
  std::string text, hash;
  mutable std::once_flag asked{};
  mutable std::string variant{};
};

Checked::Checked(Program program) {
  std::string text = to_json(program);
  std::string hash = sha256_hex(text);
  held_ = std::make_shared<const Held>(std::move(program), std::move(text), std::move(hash));
}

Result<Checked> Checked::read(std::string_view json) {
  PLANISH_TRY(Program program, parse(json));
  return Checked(std::move(program));
}

const Program& Checked::program() const {
  return held_->program;
}
const std::string& Checked::text() const {
  return held_->text;
}
const std::string& Checked::hash() const {
  return held_->hash;
}
const std::string& Checked::variant() const {
  std::call_once(held_->asked, [this] { held_->variant = normalised_hash(held_->program); });
  return held_->variant;
}

const std::string& Given::text() const {
  const Checked* checked = std::get_if<Checked>(&held_);
  return checked != nullptr ? checked->text() : std::get<std::string>(held_);
}

Result<Checked> Given::checked() const {
  if (const Checked* checked = std::get_if<Checked>(&held_); checked != nullptr) return *checked;
  return Checked::read(std::get<std::string>(held_));
}

}  // namespace planish::program
