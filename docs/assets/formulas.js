// Set every formula that pymdownx.arithmatex has marked: \(...\) in a line, \[...\] on its own.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const [, open, formula] = element.textContent.match(/^\s*\\([([])([\s\S]*)\\[)\]]\s*$/);
    katex.render(formula, element, { displayMode: open === "[", throwOnError: false });
  }
});
