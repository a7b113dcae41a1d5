#include "text/grammar/answer_grammar.h"

#include "core/error.h"

namespace baltoro {

RuleId AnswerSchemas::content(const AnswerShape& shape) {
  if (shape.schema.value == nullptr) return format_.json.object;
  SchemaCompiler& compiler =
      compilers_.emplace_back(format_.builder, format_.json, shape.schema, SchemaStyle{});
  return compiler.rule(compiler.root());
}

AnswerSchemas::Arguments AnswerSchemas::arguments(const DeclaredTool& tool) {
  if (tool.parameters.value == nullptr) return {};
  SchemaCompiler& compiler =
      compilers_.emplace_back(format_.builder, format_.json, tool.parameters,
                              SchemaStyle{.lenient = !tool.strict, .closed = true});
  Arguments arguments{&compiler, compiler.parts(compiler.root())};
  std::erase_if(arguments.parts, [](const SchemaPart& part) {
    return part.type != SchemaType::kObject || !part.only.empty();
  });
  if (arguments.parts.empty()) {
    fail(ErrorCode::kUsage,
         "{}: the arguments of a call are an object, which this schema does not describe",
         tool.parameters.path);
  }
  return arguments;
}

void AnswerSchemas::finish() {
  for (SchemaCompiler& compiler : compilers_) compiler.finish();
}

}  // namespace baltoro
