// Continues a prompt: complete MODEL_DIR "text" [tokens]
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "baltoro/engine.h"
#include "baltoro/generate.h"
#include "baltoro/session.h"
#include "baltoro/tokenizer.h"

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: complete MODEL_DIR TEXT [TOKENS]\n");
    return 2;
  }
  const auto engine = baltoro::Engine::load(argv[1]);
  const auto tokenizer = baltoro::Tokenizer::load(argv[1]);

  baltoro::Session session = engine->new_session();
  session.prefill(tokenizer.encode(argv[2]));

  baltoro::GenerateOptions options;
  options.sampling.temperature = 0.7f;
  options.max_tokens = argc > 3 ? std::atoi(argv[3]) : 100;
  options.stop_ids = engine->info().generation.stop_ids;
  options.banned = baltoro::unusable_ids(tokenizer, engine->info().vocab_size);
  baltoro::generate(session, &tokenizer, options, [](const baltoro::GeneratedToken& token) {
    std::fwrite(token.text.data(), 1, token.text.size(), stdout);
    return std::fflush(stdout) == 0;
  });
  std::putchar('\n');
} catch (const std::exception& error) {
  std::fprintf(stderr, "complete: %s\n", error.what());
  return 1;
}
