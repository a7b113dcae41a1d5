// The routes of the server's interfaces: OpenAI's, and Anthropic's /v1/messages.
#pragma once

#include <memory>

#include "serve/api/model.h"
#include "serve/http.h"

namespace baltoro::serve {

struct Service;

// Any thread may call it. Destroy it before the scheduler of its model: what the scheduler still says
// then is not heard.
class Api {
 public:
  explicit Api(Model model);
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // Answers every request, with an error where nothing else fits. Never throws.
  void handle(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

 private:
  std::shared_ptr<Service> service_;
};

}  // namespace baltoro::serve
