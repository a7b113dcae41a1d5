// The conversation of a request that has been read already: for requests with more than that in them.
#pragma once

#include "baltoro/chat.h"
#include "text/json_field.h"

namespace baltoro {

// As parse_conversation(json); source texts are copied.
Conversation parse_conversation(const JsonField& request);

}  // namespace baltoro
