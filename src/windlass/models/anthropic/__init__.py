"""Claude, by Anthropic's own SDK (the extra `anthropic`): at Anthropic, on Vertex AI, on Amazon Bedrock."""

from windlass.models.anthropic.bedrock import AnthropicBedrockModel
from windlass.models.anthropic.model import AnthropicModel
from windlass.models.anthropic.vertex import AnthropicVertexModel

__all__ = ["AnthropicBedrockModel", "AnthropicModel", "AnthropicVertexModel"]
