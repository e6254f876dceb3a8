// What openapi.json says, as a page.
"use strict";

async function showDocs() {
  const described = await (await fetch("openapi.json")).json();
  document.getElementById("about").textContent = `${described.info.description} Version ${described.info.version}.`;
  for (const [path, operations] of Object.entries(described.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const title = document.createElement("h2");
      title.textContent = `${method.toUpperCase()} ${path}`;
      const summary = document.createElement("p");
      summary.textContent = operation.summary;
      const details = document.createElement("details");
      details.append(Object.assign(document.createElement("summary"), { textContent: "Body and answers" }));
      const text = { body: operation.requestBody, answers: operation.responses };
      details.append(Object.assign(document.createElement("pre"), { textContent: JSON.stringify(text, null, 2) }));
      document.getElementById("operations").append(title, summary, details);
    }
  }
}

showDocs();
