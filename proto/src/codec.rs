//! The gRPC codec of the fleet service: prost with small buffers.
//!
//! tonic's own codec reserves 8 KiB each way per stream at once; an idle agent's frames are some 20 bytes. The
//! buffers grow with what passes through them.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// First size of a stream's buffers, bytes.
const BUFFER: usize = 256;
/// Bytes gathered before they are handed to the transport.
const YIELD: usize = 32 * 1024;

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
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::new(BUFFER, YIELD))
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(BufferSettings::new(BUFFER, YIELD))
    }
}
