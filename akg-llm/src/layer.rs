//! What models around models share.

use akg_core::Result;
use akg_core::chat::{ChatModel, ChatReply, ChatRequest, Sink};

/// Passes a call on in the way that it came: with a sink if it streams.
pub(crate) async fn pass(
    model: &dyn ChatModel,
    request: &ChatRequest,
    sink: Option<Sink<'_>>,
) -> Result<ChatReply> {
    match sink {
        Some(sink) => model.stream(request, sink).await,
        None => model.chat(request).await,
    }
}

/// Makes a type with a field `model` and a method `run` that takes both kinds of calls a model of the same name.
macro_rules! around {
    ($layer:ty) => {
        #[async_trait::async_trait]
        impl akg_core::ChatModel for $layer {
            fn name(&self) -> &str {
                self.model.name()
            }

            fn capability(&self) -> akg_core::chat::ChatCapability {
                self.model.capability()
            }

            async fn chat(
                &self,
                request: &akg_core::chat::ChatRequest,
            ) -> akg_core::Result<akg_core::chat::ChatReply> {
                self.run(request, None).await
            }

            async fn stream(
                &self,
                request: &akg_core::chat::ChatRequest,
                sink: akg_core::chat::Sink<'_>,
            ) -> akg_core::Result<akg_core::chat::ChatReply> {
                self.run(request, Some(sink)).await
            }
        }
    };
}
pub(crate) use around;
