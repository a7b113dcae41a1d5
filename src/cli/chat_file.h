// Conversations as JSON: the files of /save and /load, and the bodies of requests. The `messages`
// are those of OpenAI's interface, so each can become the other.
#pragma once

#include <string>
#include <vector>

#include "baltoro/chat.h"

namespace baltoro::cli {

// {"role", "content", ...}. All text must be UTF-8.
std::string message_json(const Message& message);

// {"messages": [...]}, and "tools" and "thinking" where the conversation has them; a message a line.
std::string conversation_json(const Conversation& conversation);

// Writes conversation_json(); the file has its name only when it is whole. Throws Error{kIo}.
void save_conversation(const Conversation& conversation, const std::string& file);

// Throws Error{kIo}, and Error{kUsage, kUnsupported} that begins with the file and the path of the
// wrong value: "talk.json: messages[2].role: ...".
Conversation load_conversation(const std::string& file);

}  // namespace baltoro::cli
