// Continues a text greedily, by the installed headers alone: consumer MODEL TEXT
#include <baltoro/chat.h>
#include <baltoro/engine.h>
#include <baltoro/error.h>
#include <baltoro/generate.h>
#include <baltoro/sampler.h>
#include <baltoro/session.h>
#include <baltoro/tokenizer.h>
#include <baltoro/types.h>
#include <baltoro/version.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const auto engine = baltoro::Engine::load(argv[1]);
  const auto tokenizer = baltoro::Tokenizer::load(argv[1]);
  baltoro::Session session = engine->new_session();
  session.prefill(tokenizer.encode(argv[2]));
  baltoro::GenerateOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 16;
  baltoro::generate(session, &tokenizer, options, [](const baltoro::GeneratedToken& token) {
    return std::fwrite(token.text.data(), 1, token.text.size(), stdout) == token.text.size();
  });
} catch (const baltoro::Error& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return 1;
}
