/**
 * The log-in: shown instead of any page while the JobManager wants a token.
 */

import { field } from "../dialogs.js";
import { h } from "../elements.js";
import { LogInNeeded, logIn } from "../rest.js";

/** Return the form; `done` is called when the token was right. */
export default function logInPage(done) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const form = h(
    "form",
    { class: "card narrow", on: { submit: send } },
    h("h1", null, "Log in"),
    h("p", null, "This JobManager wants its token: the content of the file that flott.rest.token-file names."),
    field("Token", "token", { type: "password", required: true, autocomplete: "current-password" }),
    problem,
    h("div", { class: "row end" }, h("button", { class: "button primary", type: "submit" }, "Log in")),
  );

  async function send(event) {
    event.preventDefault();
    problem.hidden = true;
    try {
      await logIn(new FormData(form).get("token"));
    } catch (error) {
      problem.textContent = error instanceof LogInNeeded ? "This is not the token of this JobManager." : error.message;
      problem.hidden = false;
      form.elements.token.select();
      return;
    }
    await done();
  }

  return form;
}
