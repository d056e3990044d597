// Asks for the token of a server that has one. The server then sets a cookie that scripts cannot read.
import { post } from "./api.js";
import { el, problem, setProblem } from "./dom.js";

export function tokenView(accepted) {
  const input = el("input", {
    type: "password",
    id: "token",
    required: true,
    autocomplete: "current-password",
    "aria-describedby": "token-problem",
  });
  const failed = problem();
  failed.id = "token-problem";
  const form = el(
    "form",
    { class: "token" },
    el("h2", { tabindex: "-1" }, "This server needs a token"),
    el(
      "p",
      { class: "note" },
      "It is in the file of ",
      el("code", {}, "--token-file"),
      " or in ",
      el("code", {}, "REMASTER_TOKEN"),
      " of the machine that runs ",
      el("code", {}, "remaster serve"),
      ".",
    ),
    el("p", { class: "field" }, el("label", { for: "token" }, "Token"), input),
    failed,
    el("p", {}, el("button", { class: "primary" }, "Continue")),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await post("/v1/session", { token: input.value });
      accepted();
    } catch (error) {
      setProblem(failed, error);
      input.select();
    }
  });
  return { root: form, title: "Token", update() {}, focus: input };
}
