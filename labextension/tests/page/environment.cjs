/* The page of the tests: jsdom, with what browsers have, JupyterLab uses and jsdom lacks. */

const { TestEnvironment } = require('jest-environment-jsdom');

/* Node has these too. Byte arrays come along, so that `instanceof` holds for what they return. */
const NODE_HAS = {
  ArrayBuffer,
  Headers,
  Request,
  Response,
  TextDecoder,
  TextEncoder,
  Uint8Array,
  fetch,
  structuredClone
};

module.exports = class Page extends TestEnvironment {
  async setup() {
    await super.setup();
    const page = this.global;
    Object.assign(page, NODE_HAS);
    page.DragEvent = class DragEvent extends page.MouseEvent {};
    page.ResizeObserver = class ResizeObserver {
      observe() {}
      unobserve() {}
      disconnect() {}
    };
    page.IntersectionObserver = class IntersectionObserver extends page.ResizeObserver {};
    page.matchMedia = media => ({
      media,
      matches: false,
      addEventListener() {},
      removeEventListener() {}
    });
    let copied = '';
    const clipboard = {
      readText: async () => copied,
      writeText: async text => {
        copied = text;
      }
    };
    Object.defineProperty(page.navigator, 'clipboard', { value: clipboard });
    page.Element.prototype.scrollIntoView = () => {};
  }
};
