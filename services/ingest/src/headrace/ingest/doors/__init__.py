"""The HTTP routes: native and OpenAI's, and what both share. Each door only translates; the service decides."""
