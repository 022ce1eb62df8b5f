#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "llm/provider.h"

namespace planish::coder::testing {

inline llm::Answer says(std::string text, std::int64_t nanodollars = 0) {
  llm::ChatReply out;
  out.text = std::move(text);
  out.nanodollars = nanodollars;
  return out;
}

/// An answer in a schema, as a provider gives it.
inline llm::Answer says_json(std::string json) {
  llm::ChatReply out;
  out.text = json;
  out.json = std::move(json);
  return out;
}

inline llm::Answer refuses(ErrorKind kind, std::string message) {
  llm::Failure failure;
  failure.error = {kind, std::move(message), {}, {}};
  failure.elsewhere = true;
  return std::unexpected(failure);
}

/// Answers by a function; remembers what it was asked.
class Speaking : public llm::Provider {
 public:
  using Say = std::function<llm::Answer(const llm::ChatRequest&)>;
  Speaking(std::string label, std::vector<llm::Role> roles, Say say) : say_(std::move(say)) {
    config_.name = config_.label = std::move(label);
    config_.roles = std::move(roles);
    config_.parallel = 64;
  }
  llm::Answer complete(const llm::ChatRequest& request, const llm::Call& call) override {
    {
      const std::scoped_lock lock(mutex_);
      CHECK(llm::check(request));
      asked_.push_back(request);
    }
    call.tell({llm::CallEvent::Kind::charged, config_.label, "", 0, {1000, 5}});
    return say_(request);
  }
  const llm::ModelConfig& config() const override { return config_; }
  std::vector<llm::ChatRequest> asked() const {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  llm::ModelConfig config_;
  Say say_;
  mutable std::mutex mutex_;
  std::vector<llm::ChatRequest> asked_;
};

}  // namespace planish::coder::testing
