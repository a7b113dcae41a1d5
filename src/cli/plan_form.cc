#include "cli/plan_form.h"

#include "cli/arguments.h"

namespace baltoro::cli {

void add_plan_form(CLI::App& app, PlanForm& form) {
  app.add_flag("--json", form.json, "Print one JSON document");
  app.add_flag("--csv", form.csv, "Print comma-separated values");
  app.add_flag("--svg", form.svg, "Print a figure");
  app.add_flag("--html", form.html, "Print a page that needs no other file");
}

void check_plan_form(const PlanForm& form) {
  struct Given {
    bool is_given;
    const char* name;
  };
  const std::vector<Given> forms = {
      {form.json, "--json"}, {form.csv, "--csv"}, {form.svg, "--svg"}, {form.html, "--html"}};
  for (std::size_t i = 0; i < forms.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      refuse_together(forms[j].is_given, forms[j].name, forms[i].is_given, forms[i].name);
    }
  }
}

}  // namespace baltoro::cli
