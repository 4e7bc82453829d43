// Browsers start no workers for pages that are opened from the file system, and the search
// needs one. Its script then runs in a hidden frame, which has the same interface.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      this.started = new Promise((resolve) => (script.onload = resolve));
      frame.contentDocument.body.appendChild(script);
    }

    async postMessage(data) {
      await this.started;
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
    }
  };
}
