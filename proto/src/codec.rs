//! The gRPC codec of the fleet service: prost with small buffers.
//!
//! In: messages, or bytes that came over a stream. Out: bytes, or messages; `OUT_OF_RANGE` for one that would take far more memory than it
//! has bytes.
//!
//! tonic's own codec reserves 8 KiB each way per stream at once; an idle agent's frames are some 20 bytes. The
//! buffers grow with what passes through them. A message of more parts than any has is not decoded.

use std::marker::PhantomData;

use bytes::Buf as _;
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use crate::frame;

/// First size of a stream's buffers, bytes.
const BUFFER: usize = 256;
/// Bytes gathered before they are handed to the transport.
const YIELD: usize = 32 * 1024;

/// Decodes what may be decoded.
#[derive(Debug)]
pub struct BoundedDecoder<U>(ProstDecoder<U>);

impl<U: Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // All of it is there, in one piece.
        if !frame::is_bounded(message.chunk()) {
            return Err(Status::out_of_range("a message has more parts than any"));
        }
        self.0.decode(message)
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Encodes `T` and decodes `U` with buffers of 256 bytes to begin with.
#[derive(Debug, Clone)]
pub struct SmallCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SmallCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SmallCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER, YIELD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER, YIELD)))
    }
}
