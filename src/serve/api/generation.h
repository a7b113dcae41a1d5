// Runs the answer to one request: from the scheduler's tokens to the responder.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "baltoro/scheduler.h"
#include "serve/api/answer_request.h"
#include "serve/api/choice_reader.h"
#include "serve/api/finisher.h"
#include "serve/api/model.h"
#include "serve/api/responder.h"

namespace baltoro::serve {

// What all requests share. Outlives them, since the scheduler's callbacks hold it.
struct Service {
  explicit Service(Model served) : model(std::move(served)) {}

  Model model;
  Finisher finisher;
};

// Submits the request; the answer, or why there is none, goes to the responder. The request is
// cancelled when the client of `reply` goes.
void start_generation(std::shared_ptr<Service> service, AnswerRequest request,
                      std::shared_ptr<HttpReply> reply, std::unique_ptr<Responder> responder);

}  // namespace baltoro::serve
